/** Hashes of text. Touches the machine (its crypto). */
import { hash } from "node:crypto";

/** SHA-256 of the text's UTF-8 bytes, in hex. */
export function sha256(text: string): string {
  return hash("sha256", text);
}
