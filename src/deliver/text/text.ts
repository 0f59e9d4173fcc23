import { redact } from "../../base/observe/redact.ts";

/** Stands in for an answer without a word: it is delivered all the same, so that people see that there was one. */
export const EMPTY_ANSWER = "(The answer was empty.)";

/** All of C0 and C1 but tab and line feed, DEL, U+FEFF, and what stands for characters that were lost. */
// oxlint-disable-next-line no-control-regex -- these are what it takes away
const UNREADABLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufeff\ufffc-\uffff]+/g;

const VISIBLE = /[^\s\p{Default_Ignorable_Code_Point}\p{Cf}]/u;

/**
 * `text` as people may get it: readable, and with secrets redacted. Empty when nothing is left that can be seen.
 */
export function cleanText(text: string): string {
  const readable = toReadable(text);
  return isBlank(readable) ? "" : redact(readable);
}

/** Without control characters, lone surrogates and other traces of binary data; with line feeds alone between lines. */
export function toReadable(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n?|[\u2028\u2029]/g, "\n")
    .replace(UNREADABLE, "");
}

/** True when a person sees nothing: platforms refuse such a message as an empty one. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}
