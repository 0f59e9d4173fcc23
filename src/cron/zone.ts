/** IANA time zones. Pure. */
import { suggest } from "../base/nearest.ts";

/** What is wrong with the name of a zone, a sentence; undefined when nothing is. */
export function zoneFlaw(zone: string): string | undefined {
  if (isZone(zone)) return undefined;
  const known = Intl.supportedValuesOf("timeZone");
  const guess = suggest(zone, known);
  const hint = guess.startsWith("; did you mean") ? guess : "; names look like Europe/Berlin";
  return `There is no time zone ${JSON.stringify(zone.slice(0, 64))}${hint}.`;
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
