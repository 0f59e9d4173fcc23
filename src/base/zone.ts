/** IANA time zones. Pure. */
import { nearest } from "./nearest.ts";

/** What is wrong with the name of a zone, a sentence; undefined when nothing is. */
export function zoneProblem(zone: string): string | undefined {
  const hint = zoneHint(zone);
  if (hint === undefined) return undefined;
  return `There is no time zone ${JSON.stringify(zone.slice(0, 64))}${hint}${hint.endsWith("?") ? "" : "."}`;
}

/** `; did you mean "Europe/Berlin"?` and the like for what is no zone; undefined for one that is. */
export function zoneHint(zone: string): string | undefined {
  if (isZone(zone)) return undefined;
  const guess = nearest(zone, Intl.supportedValuesOf("timeZone"));
  return guess === undefined ? "; names look like Europe/Berlin" : `; did you mean ${JSON.stringify(guess)}?`;
}

/** The zone of this machine. */
export function machineZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Offsets such as `+02:00` are none: they know no daylight-saving time. */
function isZone(zone: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(zone)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
