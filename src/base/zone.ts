/** IANA time zones. Pure. */
import { nearest } from "./nearest.ts";

/** Returns what is wrong with the name of a zone, as a sentence; undefined when it is valid. */
export function zoneProblem(zone: string): string | undefined {
  const hint = zoneHint(zone);
  if (hint === undefined) return undefined;
  return `There is no time zone ${JSON.stringify(zone.slice(0, 64))}${hint}${hint.endsWith("?") ? "" : "."}`;
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
