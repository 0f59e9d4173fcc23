/** Names of the files that outputs are kept in. Pure. */
import { zoneFlaw } from "../base/zone.ts";
import type { Cause } from "./occurrence.ts";

/** Keeps outputs as files. People cannot name it: it is no platform. */
export const OUTPUT_TARGET = "cron_output";

/**
 * `YYYY-MM-DD_HH-MM-SS.md` by the clock on the wall of `zone`; a run that is not the schedule's says so behind it, and one
 * in the hour that comes twice when clocks go back says which it is. No two runs of a job have one name.
 */
export function outputFileName({
  atMs,
  zone,
  cause,
}: {
  readonly atMs: number;
  readonly zone: string;
  readonly cause: Cause;
}): string {
  const time = wallTime(atMs, zone);
  // Runs of the schedule are a minute apart; people, and what follows a failure, may be quicker.
  const why = cause === "schedule" ? "" : `_${cause}-${String(atMs % 1000).padStart(3, "0")}`;
  const isSecond = SHIFTS_MS.some((ms) => wallTime(atMs - ms, zone) === time);
  return `${time.replace(" ", "_").replaceAll(":", "-")}${isSecond ? "_second" : ""}${why}.md`;
}

/** By how much clocks go back anywhere. */
const SHIFTS_MS = [7_200_000, 3_600_000, 1_800_000] as const;

/** Whether `name` is a file that outputs may be kept in: it stays in its folder, whatever it says. */
export function isOutputFileName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md$/.test(name);
}

/** Whether `id` may name a folder of outputs. */
export function isJobFolderName(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id);
}

/** `YYYY-MM-DD HH:MM:SS` by the clock on the wall of `zone`. */
export function wallTime(atMs: number, zone: string): string {
  const parts = formatOf(zone).formatToParts(atMs);
  const of = (type: string) => parts.find((part) => part.type === type)?.value ?? "";
  return `${of("year")}-${of("month")}-${of("day")} ${of("hour")}:${of("minute")}:${of("second")}`;
}

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-CA", {
    timeZone: zoneFlaw(zone) === undefined ? zone : "UTC",
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  if (formats.size >= MAX_FORMATS) formats.clear();
  formats.set(zone, made);
  return made;
}

/** Making one costs more than asking it, and there are few zones. */
const formats = new Map<string, Intl.DateTimeFormat>();
const MAX_FORMATS = 100;
