import { redact, secretTail, spanStart } from "./redact.ts";

/** How much of an unfinished credential is held back; a key in PEM form, or a longer secret, may hold more. */
const MAX_HELD_CHARACTERS = 4_096;
const MAX_KEY_CHARACTERS = 24_000;

/** What a credential without whitespace may begin with, in lower case. */
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
 * Redacts text that comes in pieces, so that a secret split between two of them stays hidden. Held back is only the
 * tail that could be the beginning of a secret: a known one, a credential's shape up to the next whitespace, or a key
 * in PEM form; the rest is shown at once. A credential of more than 4 KiB that nothing but its shape tells may leak.
 */
export class RedactStream {
  #held = "";

  /** What may be shown now. */
  push(text: string): string {
    const all = this.#held + text;
    const at = safeEnd(all);
    this.#held = all.slice(at);
    return redact(all.slice(0, at));
  }

  /** The rest. The stream may be used again from its beginning. */
  end(): string {
    const rest = redact(this.#held);
    this.#held = "";
    return rest;
  }
}

function safeEnd(text: string): number {
  const shapeFrom = Math.min(runStart(text), authorizationStart(text));
  const bounded = Math.max(shapeFrom, text.length - MAX_HELD_CHARACTERS);
  const at = Math.min(bounded, keyStart(text), text.length - secretTail(text));
  return spanStart(text, at);
}

/** Where a credential begins in the last run without whitespace; the end of the text when there is none. */
function runStart(text: string): number {
  const limit = Math.max(0, text.length - 2 * MAX_HELD_CHARACTERS);
  let from = text.length;
  while (from > limit && /\S/.test(text[from - 1] ?? "")) from -= 1;
  const run = text.slice(from);
  const found = marker.exec(run)?.index ?? partialMarker(run);
  const scheme = schemeTail.exec(run.slice(-32));
  const schemeAt = scheme ? Math.max(0, run.length - 32) + scheme.index : run.length;
  let at = Math.min(found, schemeAt);
  // What stands before a credential decides whether it is one: `sk-` in `task-force` is none.
  while (at > 0 && /[\w-]/.test(run[at - 1] ?? "")) at -= 1;
  return from + at;
}

/** Where the run ends in the beginning of a marker. */
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

/** Where a key begins that has no end yet. */
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
