/** Paths into plain data, written `a.b[0].c`; names with other characters are written `a["x.y"]`. Pure. */

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
