/** Suggests the name that the user probably meant: of anything, and of time zones. Pure. */
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
  return candidates.length === 0 ? "" : `; valid names: ${candidates.join(", ")}`;
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

// IANA time zones

/** Returns what is wrong with the name of a zone, as a sentence; undefined when it is valid. */
export function zoneProblem(zone: string): string | undefined {
  const hint = zoneHint(zone);
  if (hint === undefined) return undefined;
  return `Unknown time zone ${JSON.stringify(zone.slice(0, 64))}${hint}${hint.endsWith("?") ? "" : "."}`;
}

/** Returns a hint such as `; did you mean "Europe/Berlin"?` for an unknown zone; undefined for a valid one. */
export function zoneHint(zone: string): string | undefined {
  if (isZone(zone)) return undefined;
  const guess = nearest(zone, Intl.supportedValuesOf("timeZone"));
  return guess === undefined ? "; names look like Europe/Berlin" : `; did you mean ${JSON.stringify(guess)}?`;
}

/** Returns the zone of this machine. */
export function machineZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Offsets such as `+02:00` are not zones: they have no daylight-saving time. */
function isZone(zone: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(zone)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
