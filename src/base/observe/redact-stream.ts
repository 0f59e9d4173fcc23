import { redact, secretTail, spanStart } from "./redact.ts";

/** Limit of the buffered part of an unfinished credential; PEM keys and longer secrets may buffer more. */
const MAX_HELD_CHARACTERS = 4_096;
const MAX_KEY_CHARACTERS = 24_000;

/** Prefixes of credentials without whitespace, in lower case. */
const markers = "sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox akia aiza npm_ eyj bearer basic".split(
  " ",
);
const marker = new RegExp(String.raw`${markers.join("|")}|[a-z][a-z0-9+.-]{1,20}:\/\/`, "i");
const longestMarker = Math.max(...markers.map((text) => text.length));
const schemeTail = /(?<!\w)[a-z][a-z0-9+.-]{0,20}(?::\/{0,2})?$/i;
const authorizationTail = /\b(?:bearer|basic)\s{1,200}\S{0,4096}$/i;
const keyTail = new RegExp(
  String.raw`^-----(?:B|BE|BEG|BEGI|BEGIN|BEGIN [A-Z ]{0,60}-{0,4})?$|` +
    String.raw`^-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\sA-Za-z0-9+/=\\:,.-])*(?:-----[A-Z -]{0,60})?$`,
);
const keyEnd = /-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----$/;

/**
 * Redacts text that comes in pieces, also secrets split between two of them. Buffers only a tail that could begin a
 * secret (a known one, the shape of a credential up to the next whitespace, or a PEM key) and returns the rest at once.
 * A credential of more than 4 KiB that is known by its shape alone may leak.
 */
export class RedactStream {
  #buffered = "";

  /** Returns the text that can be shown now. */
  push(text: string): string {
    const all = this.#buffered + text;
    const at = safeEnd(all);
    this.#buffered = all.slice(at);
    return redact(all.slice(0, at));
  }

  /** Returns the rest and resets the stream. */
  end(): string {
    const rest = redact(this.#buffered);
    this.#buffered = "";
    return rest;
  }
}

function safeEnd(text: string): number {
  const shapeFrom = Math.min(runStart(text), authorizationStart(text));
  const bounded = Math.max(shapeFrom, text.length - MAX_HELD_CHARACTERS);
  const at = Math.min(bounded, keyStart(text), text.length - secretTail(text));
  return spanStart(text, at);
}

/** Returns where a credential begins in the last run without whitespace; the end of the text when none does. */
function runStart(text: string): number {
  const limit = Math.max(0, text.length - 2 * MAX_HELD_CHARACTERS);
  let from = text.length;
  while (from > limit && /\S/.test(text[from - 1] ?? "")) from -= 1;
  const run = text.slice(from);
  const found = marker.exec(run)?.index ?? partialMarker(run);
  const scheme = schemeTail.exec(run.slice(-32));
  const schemeAt = scheme ? Math.max(0, run.length - 32) + scheme.index : run.length;
  let at = Math.min(found, schemeAt);
  // The character before decides whether it is a credential: `sk-` in `task-force` is not.
  while (at > 0 && /[\w-]/.test(run[at - 1] ?? "")) at -= 1;
  return from + at;
}

/** Returns where the run ends in the beginning of a marker. */
function partialMarker(run: string): number {
  const lower = run.slice(-longestMarker).toLowerCase();
  for (let at = 0; at < lower.length; at += 1) {
    if (markers.some((text) => text.startsWith(lower.slice(at)))) return run.length - lower.length + at;
  }
  return run.length;
}

function authorizationStart(text: string): number {
  const from = Math.max(0, text.length - MAX_HELD_CHARACTERS - 256);
  const index = authorizationTail.exec(text.slice(from))?.index;
  return index === undefined ? text.length : from + index;
}

/** Returns where an unfinished key begins. */
function keyStart(text: string): number {
  const dashes = /-{1,5}$/.exec(text.slice(-5))?.[0].length ?? 0;
  const from = text.length - MAX_KEY_CHARACTERS;
  for (const mark of ["-----BEGIN ", "-----B"]) {
    const at = text.lastIndexOf(mark);
    if (at < 0 || at < from) continue;
    const tail = text.slice(at);
    if (keyTail.test(tail) && !keyEnd.test(tail)) return at;
  }
  return text.length - dashes;
}
