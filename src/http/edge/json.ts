import { ServiceError } from "../../base/errors.ts";

/** Levels of arrays and objects in what a client sends. What keeps and checks it goes down a level at a time. */
export const MAX_DEPTH = 256;

/** As JSON.parse. SyntaxError; ServiceError `invalid_request` for what is nested deeper than {@link MAX_DEPTH}. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (depthOf(text) <= MAX_DEPTH) return value;
  throw new ServiceError("invalid_request", `The JSON is nested more than ${MAX_DEPTH} levels deep.`);
}

/** Levels of a text that is known to be JSON. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i);
    else if (code === BRACE || code === BRACKET) deepest = Math.max(deepest, ++depth);
    else if (code === BRACE + 2 || code === BRACKET + 2) depth--;
  }
  return deepest;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACE = 0x7b;
const BRACKET = 0x5b;

/** Place of the quote that ends the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
}
