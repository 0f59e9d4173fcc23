/** What a schedule means, in words and in times. Pure. */
import cronstrue from "cronstrue";
import type { JobTime, SchedulePreview } from "../../../generated/http/client/types.gen.ts";
import { formatSchedule, wallTimeWithOffset, type Schedule } from "../job/job.ts";
import { nextRunMs } from "./instants.ts";
import { parseSchedule } from "./text.ts";
import { timeEntry } from "./times.ts";

const MINUTE_MS = 60_000;
/** Clocks change by less. */
const AROUND_MS = 2 * 3_600_000;
/** No zone changes its offset twice in this time. */
const SAMPLE_MS = 14 * 86_400_000;
const YEAR_MS = 365 * 86_400_000;
const MAX_CLOCK_CHANGES = 8;

/** Parses a schedule and returns its next `count` times from `nowMs` on. ServiceError `invalid_schedule`. */
export function previewSchedule(
  text: string,
  { zone, count, nowMs }: { readonly zone: string; readonly count: number; readonly nowMs: number },
): SchedulePreview {
  const schedule = parseSchedule(text, { nowMs, zone });
  const timing = { schedule, zone };
  const times = instantsAfter(timing, nowMs).take(count);
  return {
    object: "agent.schedule.preview",
    schedule: formatSchedule(schedule),
    schedule_kind: schedule.kind,
    expression: schedule.kind === "cron" ? schedule.expression : null,
    description: inWords(schedule, zone),
    time_zone: zone,
    times: times.map((atMs) => timeEntry(timing, atMs)).toArray(),
    clock_changes: schedule.kind === "cron" ? clockChanges(timing, nowMs) : [],
  };
}

interface Timing {
  readonly schedule: Schedule;
  readonly zone: string;
}

function* instantsAfter({ schedule, zone }: Timing, nowMs: number): Generator<number> {
  for (let at = nextRunMs(schedule, nowMs, zone); at !== undefined; at = nextRunMs(schedule, at, zone)) {
    yield at;
    if (schedule.kind === "once") return;
  }
}

function inWords(schedule: Schedule, zone: string): string {
  switch (schedule.kind) {
    case "once":
      return `Once, at ${wallTimeWithOffset(schedule.atMs, zone).slice(0, 16).replace("T", " ")}`;
    case "interval":
      return `Every ${durationInWords(schedule.minutes)}`;
    case "cron":
      return cronInWords(schedule.expression);
  }
}

function durationInWords(minutes: number): string {
  const [amount, unit] =
    minutes % 1440 === 0
      ? [minutes / 1440, "day"]
      : minutes % 60 === 0
        ? [minutes / 60, "hour"]
        : [minutes, "minute"];
  return amount === 1 ? unit : `${amount} ${unit}s`;
}

function cronInWords(expression: string): string {
  const words = cronstrue.toString(expression, { use24HourTimeFormat: true });
  const [, , day, , weekday] = expression.split(" ");
  // With a day of the month and a day of the week, the scheduler takes either.
  const isEither =
    day !== undefined && !day.startsWith("*") && weekday !== undefined && !weekday.startsWith("*");
  return isEither ? words.replace(/, and (?=on )/, ", or ") : words;
}

/** Returns the times of the next year that a clock change moves or repeats: those around each change of the offset. */
function clockChanges(timing: Timing, nowMs: number): JobTime[] {
  const changed: JobTime[] = [];
  for (const changeMs of offsetChanges(timing.zone, nowMs)) {
    for (const atMs of instantsAfter(timing, Math.max(nowMs, changeMs - AROUND_MS))) {
      if (atMs > changeMs + AROUND_MS || changed.length === MAX_CLOCK_CHANGES) break;
      const time = timeEntry(timing, atMs);
      if (time.shift !== null) changed.push(time);
    }
  }
  return changed;
}

/** Yields when the offset of a zone changes in the next year, to the minute. */
function* offsetChanges(zone: string, nowMs: number): Generator<number> {
  const offsetAt = (atMs: number) => wallTimeWithOffset(atMs, zone).slice(-6);
  for (let fromMs = nowMs; fromMs < nowMs + YEAR_MS; fromMs += SAMPLE_MS) {
    const before = offsetAt(fromMs);
    if (offsetAt(fromMs + SAMPLE_MS) === before) continue;
    let [low, high] = [fromMs, fromMs + SAMPLE_MS];
    while (high - low > MINUTE_MS) {
      const middle = (low + high) / 2;
      if (offsetAt(middle) === before) low = middle;
      else high = middle;
    }
    if (high < nowMs + YEAR_MS) yield high;
  }
}
