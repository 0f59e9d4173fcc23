import type { TextUnit } from "./part.ts";

/** Length of well-formed text as a platform counts it. */
export function lengthIn(text: string, unit: TextUnit): number {
  if (unit === "utf16") return text.length;
  let length = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    // The two halves of a pair are one code point, and four bytes.
    if (unit === "codepoints") length -= code >= 0xd800 && code < 0xdc00 ? 1 : 0;
    else if (code >= 0xd800 && code < 0xe000) length += 1;
    else length += code < 0x80 ? 0 : code < 0x800 ? 1 : 2;
  }
  return length;
}
