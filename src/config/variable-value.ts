/** Parses the text of a variable for its setting: a number, a switch, one of several words, pairs. Pure. */
import type { JsonSchema } from "../base/schema.ts";

/** `problem` is a clause that follows the variable's name and says what is allowed; `value` is then the text itself. */
interface VariableValue {
  readonly value: unknown;
  readonly problem?: string;
}

/**
 * Parses `text` as the kind of value that `schema` describes. The problem never holds the text, which may be a secret.
 */
export function readVariable(schema: JsonSchema, text: string): VariableValue {
  const found = valueOf(schema, text.trim());
  if (found === undefined) return { value: text, problem: `must be ${expected(schema)}` };
  return { value: found === KEEP ? text : found };
}

/** Any text is valid and kept as it is. */
const KEEP = Symbol("keep");
const SWITCHES: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  on: true,
  "1": true,
  false: false,
  no: false,
  off: false,
  "0": false,
};

function valueOf(schema: JsonSchema, text: string): unknown {
  const { type, enum: words } = schema;
  if (Array.isArray(words)) return words.find((word) => word === text.toLowerCase());
  if (type === "boolean") return SWITCHES[text.toLowerCase()];
  if (type === "integer" || type === "number") return numberOf(schema, text);
  if (type === "object") return readPairs(text);
  const schemes = schemesOf(schema);
  if (schemes.length > 0)
    return schemes.some((each) => text.toLowerCase().startsWith(each)) ? text : undefined;
  return KEEP;
}

function numberOf({ type, minimum, maximum }: JsonSchema, text: string): number | undefined {
  const isNumber = type === "integer" ? /^[+-]?\d{1,15}$/ : /^[+-]?\d{1,15}(?:\.\d{1,15})?$/;
  if (!isNumber.test(text)) return undefined;
  const value = Number(text);
  const isWithin = value >= Number(minimum ?? -Infinity) && value <= Number(maximum ?? Infinity);
  return isWithin ? value : undefined;
}

function expected(schema: JsonSchema): string {
  const { type, enum: words, minimum, maximum } = schema;
  if (Array.isArray(words)) return listOf(words.map(String));
  if (type === "boolean") return "true or false (or 1, 0, yes, no, on, off)";
  if (type === "object") return "pairs such as name=value,name=value, with their values percent-encoded";
  const schemes = schemesOf(schema);
  if (schemes.length > 0) return `an address that begins with ${listOf(schemes)}`;
  const kind = type === "integer" ? "a whole number" : "a number";
  if (minimum !== undefined && maximum !== undefined)
    return `${kind} from ${String(minimum)} to ${String(maximum)}`;
  return minimum === undefined ? kind : `${kind}, at least ${String(minimum)}`;
}

/** Returns the schemes that the schema's pattern allows for an address; empty for other patterns. */
export function schemesOf({ pattern }: JsonSchema): readonly string[] {
  const scheme = /(https|wss)\?:\/\//.exec(String(pattern))?.[1];
  return scheme === undefined ? [] : [`${scheme.replace(/s$/, "")}://`, `${scheme}://`];
}

/** Returns `a, b or c`. */
export function listOf(words: readonly string[]): string {
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" or ");
}

/** Parses `name=value,name=value` with percent-encoded values, as in W3C Baggage. Undefined for other text. */
function readPairs(text: string): Readonly<Record<string, string>> | undefined {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  const found = pairs.flatMap((pair) => {
    const { name, value } = /^\s*(?<name>[^\s=]+)\s*=(?<value>.*)$/.exec(pair)?.groups ?? {};
    return name === undefined || value === undefined ? [] : [[name, value.trim()] as const];
  });
  if (found.length < pairs.length) return undefined;
  try {
    return Object.fromEntries(found.map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}
