/** Hashes of text and bytes. Touches the machine (its crypto). */
import { createHmac, hash, timingSafeEqual } from "node:crypto";

/** Returns the SHA-256 of the text's UTF-8 bytes, in hex. */
export function sha256(text: string): string {
  return hash("sha256", text);
}

/** Returns the HMAC-SHA256 of the concatenated parts. Text is encoded as UTF-8. */
export function hmacSha256(key: string | Uint8Array, ...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const mac = createHmac("sha256", key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

/** Returns whether both are equal, in a time that depends neither on where they differ nor on their lengths. */
export function isSameSecret(a: Uint8Array, b: Uint8Array): boolean {
  return timingSafeEqual(hash("sha256", a, "buffer"), hash("sha256", b, "buffer"));
}
