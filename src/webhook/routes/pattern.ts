/** Patterns of filters. Pure. */
import { LruMap } from "../../base/lru.ts";
import { RE2JS } from "re2js";

/** Whether a text has a match anywhere, in time linear to it. Undefined: the text is too long to be looked through. */
export type Pattern = (text: string) => boolean | undefined;

const MAX_CHARACTERS = 1_000;
/** Steps that a pattern has for each character; a repetition counts as often as it may repeat. */
const MAX_STEPS = 1_000;
/** Steps for one text, some tenths of a second at worst. A part of a text would not do: what is absent may come later. */
const MAX_WORK = 2_000_000;
/** So few make a machine with few states, which goes through a megabyte in no time. */
const FEW_STEPS = 12;

const compiled = new LruMap<string, Pattern | undefined>(1_000);

/** A pattern in RE2 syntax. Undefined for one that is no pattern, or too large. */
export function patternOf(source: unknown): Pattern | undefined {
  if (typeof source !== "string" || source.length > MAX_CHARACTERS) return undefined;
  if (!compiled.has(source)) compiled.set(source, compile(source));
  return compiled.get(source);
}

function compile(source: string): Pattern | undefined {
  try {
    const pattern = RE2JS.compile(source);
    // Not `find`, which keeps track of groups that nobody asks for, and takes a hundred times as long.
    const steps = pattern.programSize();
    if (steps > MAX_STEPS) return undefined;
    const max = steps <= FEW_STEPS ? Number.POSITIVE_INFINITY : MAX_WORK / steps;
    return (text) => (text.length > max ? undefined : pattern.test(text));
  } catch {
    return undefined;
  }
}
