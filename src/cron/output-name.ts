/** Names of the files that outputs are kept in. Pure. */
import type { Cause } from "./occurrence.ts";

/** `YYYY-MM-DD_HH-MM-SS.md` by the clock on the wall of `zone`; a run that is not the schedule's says so behind it. */
export function outputFileName({
  atMs,
  zone,
  cause,
}: {
  readonly atMs: number;
  readonly zone: string;
  readonly cause: Cause;
}): string {
  return `${wallTime(atMs, zone).replace(" ", "_").replaceAll(":", "-")}${cause === "schedule" ? "" : `_${cause}`}.md`;
}

/** `YYYY-MM-DD HH:MM:SS` by the clock on the wall of `zone`. */
export function wallTime(atMs: number, zone: string): string {
  const parts = new Intl.DateTimeFormat("en-CA", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  }).formatToParts(atMs);
  const of = (type: string) => parts.find((part) => part.type === type)?.value ?? "";
  return `${of("year")}-${of("month")}-${of("day")} ${of("hour")}:${of("minute")}:${of("second")}`;
}
