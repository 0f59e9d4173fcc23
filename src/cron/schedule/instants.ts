/** The instants of a schedule. The only file that asks croner, which is asked for nothing else. Pure. */
import { LruMap } from "../../base/data.ts";
import { Cron } from "croner";
import type { Schedule } from "../job/job.ts";

const MINUTE_MS = 60_000;
/** Earlier than any time that people write. */
const EARLIEST = new Date(Date.UTC(1000, 0));

/**
 * Returns the first instant of the schedule after `baseMs`; undefined when none follows. Cron fields are in the IANA zone
 * `zone`. Where clocks go back, a job at a fixed time runs once, and a job whose hour or minute starts with `*` runs in both
 * hours; where clocks go forward, an instant in the gap runs once, at its end.
 */
export function nextRunMs(schedule: Schedule, baseMs: number, zone: string): number | undefined {
  switch (schedule.kind) {
    case "once":
      return schedule.atMs > baseMs ? schedule.atMs : undefined;
    case "interval":
      return baseMs + schedule.minutes * MINUTE_MS;
    case "cron":
      return nextOf(toPattern(schedule.expression, zone), baseMs);
  }
}

/** Returns the last instant of the schedule before `beforeMs`. Undefined for an interval, which has no fixed start. */
export function previousRunMs(schedule: Schedule, beforeMs: number, zone: string): number | undefined {
  switch (schedule.kind) {
    case "once":
      return schedule.atMs < beforeMs ? schedule.atMs : undefined;
    case "interval":
      return undefined;
    case "cron":
      return toPattern(schedule.expression, zone).cron.previousRuns(1, new Date(beforeMs))[0]?.getTime();
  }
}

/** Counts the instants from one instant to another, both included. For an expression it stops at `max`. */
export function countInstants(
  { schedule, zone }: { readonly schedule: Schedule; readonly zone: string },
  { fromMs, untilMs, max }: { readonly fromMs: number; readonly untilMs: number; readonly max: number },
): number {
  if (fromMs >= untilMs || schedule.kind === "once") return 1;
  if (schedule.kind === "interval") {
    return Math.round((untilMs - fromMs) / (schedule.minutes * MINUTE_MS)) + 1;
  }
  const pattern = toPattern(schedule.expression, zone);
  const { counted } = pattern;
  if (counted?.fromMs === fromMs && counted.untilMs === untilMs) return Math.min(max, counted.count);
  let count = 1;
  for (let at: number | undefined = fromMs; at !== undefined && at < untilMs && count < max; count++) {
    at = nextOf(pattern, at);
  }
  if (count < max) pattern.counted = { fromMs, untilMs, count };
  return count;
}

/**
 * Returns when clocks in `zone` show `wall`, `yyyy-mm-ddThh:mm:ss`: the first time where they go back and show it twice, and
 * as much later where they go forward and skip it.
 */
export function instantOf(wall: string, zone: string): number {
  return new Cron(wall, { timezone: zone, paused: true }).nextRun(EARLIEST)?.getTime() ?? Number.NaN;
}

/** An expression in a zone, with its last results: many jobs share an expression. */
interface Pattern {
  readonly cron: Cron;
  last?: { readonly baseMs: number; readonly nextMs: number | undefined };
  counted?: { readonly fromMs: number; readonly untilMs: number; readonly count: number };
}

/** Instants are whole minutes: within a minute the result is the same. */
function nextOf(pattern: Pattern, atMs: number): number | undefined {
  const baseMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  if (pattern.last?.baseMs === baseMs) return pattern.last.nextMs;
  const nextMs = pattern.cron.nextRun(new Date(baseMs))?.getTime();
  pattern.last = { baseMs, nextMs };
  return nextMs;
}

/** Returns a cached pattern, whose timers never start. Throws an Error with what is wrong with the expression. */
function toPattern(expression: string, zone: string): Pattern {
  const key = `${zone} ${expression}`;
  const known = patterns.get(key);
  const pattern = known ?? {
    cron: new Cron(expression, { timezone: zone, mode: "5-part", sloppyRanges: true, paused: true }),
  };
  if (!known) patterns.set(key, pattern);
  return pattern;
}

/** Parsing an expression costs as much as computing an instant, and each takes 80 KB. */
const patterns = new LruMap<string, Pattern>(128);
