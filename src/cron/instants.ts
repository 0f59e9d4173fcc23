/** The instants of a schedule. The only file that asks croner, which is asked for nothing else. Pure. */
import { Cron } from "croner";
import type { Schedule } from "./schedule.ts";

const MINUTE_MS = 60_000;

/**
 * The first instant after `baseMs` at which the schedule is due; undefined when there is none. `zone` is an IANA zone: in it
 * cron fields are read. Where clocks go back, jobs at one time of the day run once, and those whose hour or minute begins
 * with `*` in both of the hours; where clocks go forward, what would be in the gap runs once, at its end.
 */
export function nextRunMs(schedule: Schedule, baseMs: number, zone: string): number | undefined {
  switch (schedule.kind) {
    case "once":
      return schedule.atMs > baseMs ? schedule.atMs : undefined;
    case "interval":
      return baseMs + schedule.minutes * MINUTE_MS;
    case "cron":
      return toCron(schedule.expression, zone).nextRun(new Date(baseMs))?.getTime();
  }
}

/** The last instant before `beforeMs` at which the schedule was due. Of an interval there is none: it begins anywhere. */
export function previousRunMs(schedule: Schedule, beforeMs: number, zone: string): number | undefined {
  switch (schedule.kind) {
    case "once":
      return schedule.atMs < beforeMs ? schedule.atMs : undefined;
    case "interval":
      return undefined;
    case "cron":
      return toCron(schedule.expression, zone).previousRuns(1, new Date(beforeMs))[0]?.getTime();
  }
}

/**
 * When the clock on the wall of `zone` shows `wall`, `yyyy-mm-ddThh:mm:ss`: the first time where clocks go back and show it
 * twice, and as much later where they go forward and never do.
 */
export function instantOf(wall: string, zone: string): number {
  return new Cron(wall, { timezone: zone, paused: true }).nextRun(new Date(0))?.getTime() ?? Number.NaN;
}

/** Only asked for instants: its own timers are never started. Error that says what is wrong with the expression. */
function toCron(expression: string, zone: string): Cron {
  const known = patterns.get(`${zone} ${expression}`);
  if (known) return known;
  const made = new Cron(expression, { timezone: zone, mode: "5-part", sloppyRanges: true, paused: true });
  if (patterns.size >= MAX_PATTERNS) patterns.clear();
  patterns.set(`${zone} ${expression}`, made);
  return made;
}

/** Reading an expression costs more than asking it. */
const patterns = new Map<string, Cron>();
const MAX_PATTERNS = 20_000;
