/** Where things stand on the timeline of jobs. Pure. */
import type { CalendarEntry, Occurrence } from "../../../client/http.ts";
import { latenessOf, markOf, type Mark } from "./job-marks.ts";

/** Unix seconds; `to` is not in it. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

export interface PlacedMark {
  readonly id: string;
  readonly mark: Mark;
  /** Percent of the width of the window. */
  readonly left: number;
  /** Percent that several times, or a span of missed ones, take; 0 for an instant. */
  readonly width: number;
  /** How many times it stands for: near ones share a mark, which shows the worst of them. */
  readonly count: number;
  /** Unix seconds of the first. */
  readonly at: number;
  readonly note: string;
  readonly runId: string | null;
}

export interface TimelineRow {
  readonly jobId: string;
  readonly jobName: string;
  readonly marks: readonly PlacedMark[];
  /** Number of times by mark, such as 3 done. */
  readonly counts: ReadonlyMap<Mark, number>;
}

/** The later one is shown where several share a place. */
const SEVERITY: readonly Mark[] = [
  "planned",
  "done",
  "skipped",
  "running",
  "late",
  "uncertain",
  "missed",
  "failed",
];

interface Entries {
  readonly occurrences: readonly Occurrence[];
  readonly planned: readonly CalendarEntry[];
}

/** Returns a row for each job with times in the window, by name; `slots` is how many marks fit beside each other. */
export function rowsOf(
  { occurrences, planned }: Entries,
  window: Window,
  slots: number,
): readonly TimelineRow[] {
  const byJob = new Map<string, { readonly jobName: string; readonly marks: PlacedMark[] }>();
  const add = (jobId: string, jobName: string, mark: PlacedMark) => {
    const row = byJob.get(jobId) ?? { jobName, marks: [] };
    row.marks.push(mark);
    byJob.set(jobId, row);
  };
  for (const occurrence of occurrences)
    add(occurrence.job_id, occurrence.job_name, pastMark(occurrence, window));
  for (const entry of planned) {
    const at = entry.scheduled_at;
    const mark = {
      id: `${entry.job_id} ${at}`,
      mark: "planned",
      left: percent(at, window),
      width: 0,
      count: 1,
      at,
    } as const;
    add(entry.job_id, entry.job_name, { ...mark, note: "", runId: null });
  }
  return [...byJob]
    .map(([jobId, { jobName, marks }]) => ({
      jobId,
      jobName,
      counts: countsOf(marks),
      marks: merged(
        marks.toSorted((a, b) => a.at - b.at),
        slots,
      ),
    }))
    .toSorted((a, b) => a.jobName.localeCompare(b.jobName));
}

function pastMark(occurrence: Occurrence, window: Window): PlacedMark {
  const {
    id,
    scheduled_at: at,
    covers_until: until,
    covers_count: count,
    run_id: runId,
    reason,
  } = occurrence;
  const mark = markOf(occurrence);
  const left = Math.max(0, percent(at, window));
  const width = mark === "missed" && until !== null ? Math.min(100, percent(until, window)) - left : 0;
  const note = mark === "late" ? latenessOf(occurrence) : (reason ?? "");
  return { id, mark, left, width: Math.max(0, width), count, at, note, runId };
}

function percent(at: number, { from, to }: Window): number {
  return ((at - from) / (to - from)) * 100;
}

function countsOf(marks: readonly PlacedMark[]): ReadonlyMap<Mark, number> {
  const counts = new Map<Mark, number>();
  for (const { mark, count } of marks) counts.set(mark, (counts.get(mark) ?? 0) + count);
  return counts;
}

/**
 * Merges marks that share a place: the worst is shown. What comes next is never merged with what has been, and gives way to it.
 * A row in which ordinary times share places is drawn as bars, so that a job of each minute is a line.
 */
function merged(marks: readonly PlacedMark[], slots: number): readonly PlacedMark[] {
  const slotOf = ({ left }: PlacedMark) => Math.min(slots - 1, Math.floor((left / 100) * slots));
  const out: PlacedMark[] = [];
  for (const mark of marks) {
    const last = out.at(-1);
    const isNear = last && last.mark !== "missed" && mark.mark !== "missed" && slotOf(last) === slotOf(mark);
    if (!isNear) out.push(mark);
    else if (mark.mark !== "planned" || last.mark === "planned") out[out.length - 1] = joined(last, mark);
  }
  if (!out.some(({ mark, count }) => count > 1 && ORDINARY.has(mark))) return out;
  const width = 100 / slots;
  return out.map((mark) => {
    if (mark.mark === "missed") return mark;
    const isBar = ORDINARY.has(mark.mark);
    return { ...mark, left: (slotOf(mark) + (isBar ? 0 : 0.5)) * width, width: isBar ? width : 0 };
  });
}

const ORDINARY: ReadonlySet<Mark> = new Set(["done", "planned"]);

function joined(first: PlacedMark, second: PlacedMark): PlacedMark {
  const worst = SEVERITY.indexOf(second.mark) > SEVERITY.indexOf(first.mark) ? second : first;
  return { ...worst, left: first.left, at: first.at, count: first.count + second.count };
}

interface Day {
  /** Unix seconds of its beginning in the zone. */
  readonly at: number;
  readonly label: string;
}

/** Returns the days of a window in a zone: they have 23 or 25 hours where the clock changes. */
export function daysOf({ from, to }: Window, zone: string): readonly Day[] {
  const format = new Intl.DateTimeFormat("en-GB", {
    weekday: "short",
    day: "numeric",
    month: "short",
    timeZone: zone,
  });
  const days: Day[] = [];
  for (let at = startOfDay(from, zone); at < to; at = nextDay(at, zone)) {
    if (at >= from) days.push({ at, label: format.format(at * 1_000) });
  }
  return days;
}

const HOUR = 3_600;

/** Returns the beginning of the following day, from the beginning of one. */
export function nextDay(at: number, zone: string, days = 1): number {
  let next = at;
  for (let index = 0; index < Math.abs(days); index++) {
    next = startOfDay(next + (days > 0 ? 26 * HOUR : -12 * HOUR), zone);
  }
  return next;
}

/** Returns when the day of an instant began in a zone. Both in Unix seconds. */
export function startOfDay(at: number, zone: string): number {
  const date = dateIn(at, zone);
  const { hour, minute, second } = clockIn(at, zone);
  let start = Math.floor(at) - hour * HOUR - minute * 60 - second;
  // The clock may have changed since midnight, or skip midnight itself.
  if (dateIn(start, zone) !== date) start += HOUR;
  const before = clockIn(start, zone);
  if (before.hour > 0 && dateIn(start - before.hour * HOUR, zone) === date) start -= before.hour * HOUR;
  return start;
}

/** Returns when a day such as `2026-03-29` begins in a zone; undefined for other text. */
export function startOfDate(date: string, zone: string): number | undefined {
  const noon = Date.parse(`${date}T12:00Z`) / 1_000;
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date) || Number.isNaN(noon)) return undefined;
  const within = [noon, noon - 12 * HOUR, noon + 12 * HOUR].find((at) => dateIn(at, zone) === date);
  return within === undefined ? undefined : startOfDay(within, zone);
}

/** Returns the date of an instant in a zone, as `2026-03-29`. */
export function dateIn(at: number, zone: string): string {
  return formatOf(zone)
    .format(at * 1_000)
    .slice(0, 10);
}

function clockIn(at: number, zone: string) {
  const [hour = 0, minute = 0, second = 0] = formatOf(zone)
    .format(at * 1_000)
    .slice(-8)
    .split(":")
    .map(Number);
  return { hour, minute, second };
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Writes `2026-03-29, 09:00:00`; Sweden writes dates so. */
function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const format = new Intl.DateTimeFormat("sv-SE", {
    dateStyle: "short",
    timeStyle: "medium",
    timeZone: zone,
  });
  formats.set(zone, format);
  return format;
}
