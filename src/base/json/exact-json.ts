/** JSON that keeps the digits of numbers that the language cannot represent. Pure. */

/** A number with its original digits. `JSON.stringify` writes them unchanged. */
export interface ExactNumber {
  readonly rawJSON: string;
}

/** Supported by the runtime, but missing from its types. */
const json = JSON as unknown as {
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): ExactNumber;
  isRawJSON(value: unknown): value is ExactNumber;
};

/** Parses JSON like `JSON.parse`, with an {@link ExactNumber} for integers beyond 2^53 and numbers beyond doubles. */
export function parseExactJson(text: string): unknown {
  // Checking each number costs ten times as much as parsing, and hardly any text has such a number.
  return MAYBE_TOO_LONG.test(text) ? json.parse(text, keepExact) : (JSON.parse(text) as unknown);
}

export const isExactNumber = json.isRawJSON;

/** Matches a number of sixteen digits, or with an exponent of three. */
const MAYBE_TOO_LONG = /(?:^|[[\s:,-])(?:\d{16}|\d[\d.]*[eE]\+?\d{3})/;

function keepExact(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  const isHeld = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return isHeld || source === String(value) ? value : json.rawJSON(source);
}
