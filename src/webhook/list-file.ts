/** Lists of values in files, for filters. Touches the machine. */
import { readFile, stat } from "node:fs/promises";

/** Longest file that is read. */
const MAX_BYTES = 5_242_880;

/**
 * The values of a file: the elements of a JSON list, the names of a JSON object, one JSON value, else the lines that are
 * not blank. Undefined for one that cannot be read. `path` is absolute.
 */
export async function readListFile(path: string): Promise<readonly unknown[] | undefined> {
  try {
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
    const value = JSON.parse(text) as unknown;
    if (Array.isArray(value)) return value;
    return typeof value === "object" && value !== null ? Object.keys(value) : [value];
  } catch {
    return text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== "");
  }
}
