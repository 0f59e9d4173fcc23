/** Options that several commands share, and forms that the parser does not know. Pure. */
import { UsageError } from "./arguments.ts";

/** Returns an option with a value. */
export const textOption = (valueHint: string, description: string) =>
  ({ type: "string", valueHint, description }) as const;
/** Returns an option without a value. */
export const switchOption = (description: string) => ({ type: "boolean", description }) as const;
export const requiredArgument = (description: string) =>
  ({ type: "positional", required: true, description }) as const;
export const optionalArgument = (description: string) =>
  ({ type: "positional", required: false, description }) as const;

export const jsonOption = { type: "boolean", description: "Print JSON" } as const;
export const jsonLinesOption = { type: "boolean", description: "Print JSON lines" } as const;
export const quietOption = {
  type: "boolean",
  alias: "q",
  description: "Print only ids, one per line",
} as const;
export const yesOption = { type: "boolean", alias: "y", description: "Skip the confirmation" } as const;
export const cursorOption = {
  type: "string",
  description: "Continue after the previous page, with the cursor that it printed",
} as const;

/** Returns the option for the size of a page of `what`, such as "Sessions". */
export function limitOption(
  what: string,
  { max, fallback }: { readonly max: number; readonly fallback: number },
) {
  return {
    type: "string",
    valueHint: "number",
    default: String(fallback),
    description: `${what} per page, 1 to ${max}`,
  } as const;
}

/** Reads `--limit`. UsageError unless it is a number from 1 to `max`. */
export function toLimit(text: string, max: number): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= max) return limit;
  throw new UsageError(`--limit must be a number from 1 to ${max}, not ${JSON.stringify(text)}.`);
}

/** Returns every value of a repeatable option, from words as `normalizeArguments` returns them. */
export function repeatedOption(words: readonly string[], name: string): readonly string[] {
  const end = words.indexOf("--");
  const start = `--${name}=`;
  return words
    .slice(0, end < 0 ? words.length : end)
    .flatMap((word) => (word.startsWith(start) ? [word.slice(start.length)] : []));
}

/** Splits `a, b` into a list without empty parts. */
export function commaList(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Returns a port from 1 to 65535, or undefined. */
export function toPort(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text.trim()) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}
