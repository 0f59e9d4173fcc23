/** Suggests the name that the user probably meant. Pure. */

/** Returns the candidate closest to `name`; undefined when more than a third of it differs. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  const wanted = name.toLowerCase().slice(0, MAX_LENGTH);
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: editDistance(wanted, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  return best && best.distance <= limit ? best.candidate : undefined;
}

/** Returns `; did you mean "x"?`, or the candidates when none is near, or "" without candidates. */
export function suggest(name: string, candidates: readonly string[]): string {
  const best = nearest(name, candidates);
  if (best !== undefined) return `; did you mean ${JSON.stringify(best)}?`;
  return candidates.length === 0 ? "" : `; known are: ${candidates.join(", ")}`;
}

const MAX_LENGTH = 128;

/** Returns the edit distance (optimal string alignment): a step inserts, deletes, replaces, or swaps two neighbours. */
export function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const at = (up: number, left: number) =>
        (up === 0 ? row[j - left] : rows[i - up]?.[j - left]) ?? Infinity;
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const isSwap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(Math.min(at(1, 0) + 1, at(0, 1) + 1, at(1, 1) + same, isSwap ? at(2, 2) + 1 : Infinity));
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? Infinity;
}
