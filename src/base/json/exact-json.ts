/** JSON whose numbers stay as they were written where the language's own cannot hold them. Pure. */

/** A number in its own digits. `JSON.stringify` writes them as they are. */
export interface ExactNumber {
  readonly rawJSON: string;
}

/** What this runtime has, and its types do not know yet. */
const json = JSON as unknown as {
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): ExactNumber;
  isRawJSON(value: unknown): value is ExactNumber;
};

/** As `JSON.parse`, with an {@link ExactNumber} for each integer beyond 2^53 and number beyond the doubles. */
export function parseExactJson(text: string): unknown {
  // Looking at each number costs ten times as much as parsing, and hardly any text has such a one.
  return MAYBE_TOO_LONG.test(text) ? json.parse(text, keepExact) : (JSON.parse(text) as unknown);
}

export const isExactNumber = json.isRawJSON;

/** A number of sixteen digits, or with an exponent of three, where a number can begin. */
const MAYBE_TOO_LONG = /(?:^|[[\s:,-])(?:\d{16}|\d[\d.]*[eE]\+?\d{3})/;

function keepExact(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  const isHeld = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return isHeld || source === String(value) ? value : json.rawJSON(source);
}
