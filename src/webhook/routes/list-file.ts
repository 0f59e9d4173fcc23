/** Lists of values in files, for filters. Touches the machine. */
import { readFile, stat } from "node:fs/promises";
import { isExactNumber, parseExactJson } from "../../base/json/exact-json.ts";
import { resolveWithin, type Environment } from "../../config/home.ts";

/** Longest file that is read. */
const MAX_BYTES = 5_242_880;

/** Where a filter's `in_file` leads: relative to the home, which may also be written `<home>/`, with `$NAME` filled in. */
export function listFilePath(
  written: string,
  { home, userHome, env }: { readonly home: string; readonly userHome: string; readonly env: Environment },
): string {
  const filled = written
    .replace(/^<home>\//, "")
    .replaceAll(
      /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g,
      (whole, braced: string | undefined, bare: string | undefined) => env[braced ?? bare ?? ""] ?? whole,
    );
  return resolveWithin(home, filled, userHome);
}

/**
 * The values of a file: the elements of a JSON list, the names of a JSON object, one JSON value, else the lines that are
 * not blank. Undefined for one that cannot be read. `path` is absolute. Read anew each time: whoever edits the file is
 * heeded by the next request.
 */
export async function readListFile(path: string): Promise<readonly unknown[] | undefined> {
  try {
    // Neither a pipe, which would be waited for, nor what fills the memory.
    const found = await stat(path);
    if (!found.isFile() || found.size > MAX_BYTES) return undefined;
    const text = (await readFile(path, "utf8")).replace(/^\uFEFF/, "");
    return valuesOf(text);
  } catch {
    return undefined;
  }
}

function valuesOf(text: string): readonly unknown[] {
  try {
    const value = parseExactJson(text);
    if (Array.isArray(value)) return value;
    const isObject = typeof value === "object" && value !== null && !isExactNumber(value);
    return isObject ? Object.keys(value) : [value];
  } catch {
    return text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== "");
  }
}
