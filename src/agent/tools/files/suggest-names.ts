import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { editDistance } from "../../../base/nearest.ts";

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
  return editDistance(wanted, name);
}
