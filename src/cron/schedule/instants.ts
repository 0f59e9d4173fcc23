/** The instants of a schedule. The only file that asks croner, which is asked for nothing else. Pure. */
import { LruMap } from "../../base/lru.ts";
import { Cron } from "croner";
import type { Schedule } from "./schedule.ts";

const MINUTE_MS = 60_000;
/** Before any time that people write. */
const EARLIEST = new Date(Date.UTC(1000, 0));

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
      return nextOf(toPattern(schedule.expression, zone), baseMs);
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
      return toPattern(schedule.expression, zone).cron.previousRuns(1, new Date(beforeMs))[0]?.getTime();
  }
}

/** How many instants there are from one to another, both of them instants. Of an expression `max` are counted at most. */
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
 * When the clock on the wall of `zone` shows `wall`, `yyyy-mm-ddThh:mm:ss`: the first time where clocks go back and show it
 * twice, and as much later where they go forward and never do.
 */
export function instantOf(wall: string, zone: string): number {
  return new Cron(wall, { timezone: zone, paused: true }).nextRun(EARLIEST)?.getTime() ?? Number.NaN;
}

/** An expression in a zone, with what it was asked last: many jobs share one, and its instants. */
interface Pattern {
  readonly cron: Cron;
  asked?: { readonly baseMs: number; readonly nextMs: number | undefined };
  counted?: { readonly fromMs: number; readonly untilMs: number; readonly count: number };
}

/** Instants are whole minutes: within a minute the answer is the same. */
function nextOf(pattern: Pattern, atMs: number): number | undefined {
  const baseMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  if (pattern.asked?.baseMs === baseMs) return pattern.asked.nextMs;
  const nextMs = pattern.cron.nextRun(new Date(baseMs))?.getTime();
  pattern.asked = { baseMs, nextMs };
  return nextMs;
}

/** Only asked for instants: its own timers are never started. Error that says what is wrong with the expression. */
function toPattern(expression: string, zone: string): Pattern {
  const key = `${zone} ${expression}`;
  const known = patterns.get(key);
  const pattern = known ?? {
    cron: new Cron(expression, { timezone: zone, mode: "5-part", sloppyRanges: true, paused: true }),
  };
  if (!known) patterns.set(key, pattern);
  return pattern;
}

/** Reading an expression costs as much as asking it, and each takes 80 KB. */
const patterns = new LruMap<string, Pattern>(128);
