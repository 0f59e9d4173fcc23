import type { Attachment } from "../message.ts";

/** A piece that `String.fromCharCode` takes as its arguments. */
const PIECE = 8_192;

/** Text as a file that rides with a prompt; the model gets it between fences, under its name. */
export function textAttachment(name: string, text: string): Attachment {
  return { type: "file", mediaType: "text/plain", name, data: toBase64(new TextEncoder().encode(text)) };
}

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    binary += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(binary);
}
