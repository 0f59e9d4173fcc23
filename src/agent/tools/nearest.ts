import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const MAX_ENTRIES = 2_000;
const MAX_NAMES = 3;

/** A sentence with the names beside `path` that are most like it, or "" when none is. */
export async function suggestNames(path: string): Promise<string> {
  const wanted = basename(path).toLowerCase();
  const entries = await readdir(dirname(path)).catch(() => [] as string[]);
  const close = entries
    .slice(0, MAX_ENTRIES)
    .map((name) => ({ name, distance: distanceTo(wanted, name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)))
    .toSorted((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_NAMES);
  if (close.length === 0) return "";
  return ` Did you mean ${close.map(({ name }) => join(dirname(path), name)).join(" or ")}?`;
}

/** Edits between the two names; a name that contains the other counts as close. */
function distanceTo(wanted: string, name: string): number {
  if (Math.min(wanted.length, name.length) >= 3 && (name.includes(wanted) || wanted.includes(name))) return 1;
  let row = Array.from({ length: name.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...wanted].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= name.length; column += 1) {
      const replaced = (row[column - 1] ?? 0) + (letter === name[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[name.length] ?? name.length;
}
