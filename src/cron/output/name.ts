/** Names of the files that outputs are kept in. Pure. */
import type { Cause } from "../tick/occurrence.ts";
import { wallTime } from "../schedule/zoned-time.ts";

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
