/** Plain data: JSON values, paths into them, and maps of bounded size. Pure. */

/**
 * Returns `target` with a JSON Merge Patch applied (RFC 7396): null removes a key. Keys such as `__proto__` stay plain
 * keys.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const base = isRecord(target) ? target : {};
  const kept = Object.entries(base).filter(([name]) => !Object.hasOwn(patch, name));
  const set = Object.entries(patch)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, mergePatch(Object.hasOwn(base, name) ? base[name] : undefined, value)]);
  return Object.fromEntries([...kept, ...set]);
}

/** Returns whether a value is an object, and neither null nor a list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Paths, written `a.b[0].c`; names with other characters are written `a["x.y"]`

export type PathSegment = string | number;
export type DotPath = readonly PathSegment[];

const MAX_LENGTH = 1024;
const STEP = /\.?([\w$-]+)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]/y;

/**
 * Parses a path; undefined when `text` is not one, or is longer than 1024 characters. `[0]` becomes a number, `.0` a
 * string.
 */
export function parseDotPath(text: string): DotPath | undefined {
  if (text === "" || text.length > MAX_LENGTH || text.startsWith(".")) return undefined;
  const segments: PathSegment[] = [];
  let at = 0;
  while (at < text.length) {
    STEP.lastIndex = at;
    const match = STEP.exec(text);
    if (!match || (at > 0 && match[1] !== undefined && text[at] !== ".")) return undefined;
    const segment = toSegment(match);
    if (segment === undefined) return undefined;
    segments.push(segment);
    at = STEP.lastIndex;
  }
  return segments;
}

/** Formats a path, as the inverse of {@link parseDotPath}; "" for the empty path. */
export function formatDotPath(path: DotPath): string {
  return path.reduce<string>((text, segment) => {
    if (typeof segment === "number") return `${text}[${segment}]`;
    if (!/^[\w$-]+$/.test(segment)) return `${text}[${JSON.stringify(segment)}]`;
    return text === "" ? segment : `${text}.${segment}`;
  }, "");
}

/** Returns the value at `path`, if any. Reads own properties only; lists accept `[0]` and `.0`. */
export function getAtPath(value: unknown, path: DotPath): unknown {
  let current = value;
  for (const segment of path) {
    if (typeof current !== "object" || current === null || !hasOwnItem(current, segment)) return undefined;
    current = (current as Readonly<Record<PathSegment, unknown>>)[segment];
  }
  return current;
}

function toSegment([, name, index, quoted]: RegExpExecArray): PathSegment | undefined {
  if (name !== undefined) return name;
  if (index !== undefined) return Number(index);
  return quoted === undefined ? undefined : unquote(quoted);
}

function unquote(text: string): string | undefined {
  try {
    return String(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The `length` of a list is not an item. */
function hasOwnItem(container: object, segment: PathSegment): boolean {
  if (Array.isArray(container) && !/^\d+$/.test(String(segment))) return false;
  return Object.hasOwn(container, segment);
}

// JSON that keeps the digits of numbers that the language cannot represent

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

/**
 * Parses JSON like `JSON.parse`, with an {@link ExactNumber} for each number that JavaScript would write in another way:
 * `19.90`, `1e3`, integers beyond 2^53.
 */
export function parseExactJson(text: string): unknown {
  // Checking each number costs ten times as much as parsing, and hardly any text has such a number.
  return MAYBE_OTHER.test(text) ? json.parse(text, keepExact) : (JSON.parse(text) as unknown);
}

export const isExactNumber = json.isRawJSON;

/** Matches a long number, one with an exponent or a last zero after its point, a tiny one, and `-0`. */
const MAYBE_OTHER =
  /(?:^|[[\s:,-])(?:\d[\d.]{15}|\d[\d.]*[eE][+-]?\d+(?=[\s,\]}]|$)|\d+\.\d*0(?=[\s,\]}]|$)|0\.0{6})|-0(?=[\s,\]}]|$)/;

function keepExact(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  return source === String(value) ? value : json.rawJSON(source);
}

// Maps of bounded size

/** A map of bounded size: a new entry evicts the one that was used longest ago. */
export class LruMap<K, V> {
  readonly #max: number;
  readonly #entries = new Map<K, V>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns the value, and marks it as used. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined && !this.#entries.has(key)) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value as V);
    return value;
  }

  /** Returns whether the key has a value, without marking it as used. */
  has(key: K): boolean {
    return this.#entries.has(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: K): boolean {
    return this.#entries.delete(key);
  }
}

/** Remembers results for as long as their version is the same. Concurrent callers share one computation. */
export class Memo<T> {
  readonly #known: LruMap<string, { readonly version: string; readonly value: Promise<T> }>;

  /** `max`: number of results that are remembered. */
  constructor(max: number) {
    this.#known = new LruMap(max);
  }

  /** Returns the remembered result, or that of `compute`. A failure is not remembered. */
  get(key: string, version: string, compute: () => Promise<T>): Promise<T> {
    const known = this.#known.get(key);
    if (known?.version === version) return known.value;
    const value = compute();
    this.#known.set(key, { version, value });
    value.catch(() => {
      if (this.#known.get(key)?.value === value) this.#known.delete(key);
    });
    return value;
  }
}
