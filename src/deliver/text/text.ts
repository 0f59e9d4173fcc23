import { redact } from "../../base/observe/redact.ts";

/** Text of an empty answer. It is delivered so that people see that the run ended. */
export const EMPTY_ANSWER = "(The answer was empty.)";

/** C0 and C1 except tab and line feed, DEL, U+FEFF, and replacement characters. */
// oxlint-disable-next-line no-control-regex -- it removes control characters
const UNREADABLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufeff\ufffc-\uffff]+/g;

const VISIBLE = /[^\s\p{Default_Ignorable_Code_Point}\p{Cf}]/u;

/** Returns `text` readable and with secrets redacted; empty when nothing visible is left. */
export function cleanText(text: string): string {
  const readable = toReadable(text);
  return isBlank(readable) ? "" : redact(readable);
}

/** Removes control characters, lone surrogates and other binary remains, and normalizes line breaks to line feeds. */
export function toReadable(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n?|[\u2028\u2029]/g, "\n")
    .replace(UNREADABLE, "");
}

/** Returns whether nothing in `text` is visible. Platforms refuse such a message as empty. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}
