/** Durations, ages and times for people. Pure. */
import { UsageError } from "./arguments.ts";

/** Returns a duration in one unit: `90 s`, `5 min`, `3 h`, `2 days`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7_200) return `${Math.floor(whole / 60)} min`;
  return whole < 172_800 ? `${Math.floor(whole / 3_600)} h` : `${Math.floor(whole / 86_400)} days`;
}

/** Returns how long before `nowMs` a time is, such as `5 min ago`, or how long after it, such as `in 3 h`. */
export function formatRelative(atMs: number, nowMs: number): string {
  const seconds = Math.round((nowMs - atMs) / 1000);
  if (seconds === 0) return "now";
  return seconds > 0 ? `${formatDuration(seconds)} ago` : `in ${formatDuration(-seconds)}`;
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the time that an age such as `90m` or an ISO 8601 time names, in milliseconds. UsageError that names `--name`. */
export function toTime(text: string, name: string, nowMs: number): number {
  const { count, unit = "" } = /^(?<count>\d{1,6})(?<unit>[mhd])$/.exec(text)?.groups ?? {};
  const timeMs = count === undefined ? Date.parse(text) : nowMs - Number(count) * (UNIT_MS[unit] ?? 0);
  if (Number.isFinite(timeMs)) return timeMs;
  throw new UsageError(
    `--${name} must be like 90m, 12h or 7d, or an ISO 8601 time, not ${JSON.stringify(text)}.`,
  );
}
