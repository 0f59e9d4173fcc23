/** Instants as people read them in a zone. Pure. */
import { LruMap } from "../../base/lru.ts";
import { zoneProblem } from "../../base/zone.ts";

/** Returns `2026-01-05 13:00:00 +01:00 (Europe/Berlin)`. The offset distinguishes the two hours when clocks go back. */
export function zonedTime(atMs: number, zone: string): string {
  if (Math.abs(atMs) > MAX_TIME_MS) return "(not a valid time)";
  const at = clockTime(atMs, zone);
  return `${at.time} ${at.offset} (${at.zone})`;
}

/** Returns `YYYY-MM-DD HH:MM:SS` in the local time of `zone`. */
export function wallTime(atMs: number, zone: string): string {
  return clockTime(atMs, zone).time;
}

const MAX_TIME_MS = 8.64e15;

interface Clock {
  /** UTC when this runtime does not know the zone. */
  readonly zone: string;
  readonly format: Intl.DateTimeFormat;
}

function clockTime(atMs: number, name: string): Pick<Clock, "zone"> & Record<"time" | "offset", string> {
  const { zone, format } = clockOf(name);
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const of = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? "";
  const date = `${of("year")}-${of("month")}-${of("day")}`;
  const time = `${date} ${of("hour")}:${of("minute")}:${of("second")}`;
  return { zone, time, offset: of("timeZoneName").replace(/^(GMT|UTC)/, "") || "+00:00" };
}

function clockOf(name: string): Clock {
  const known = clocks.get(name);
  if (known) return known;
  const zone = zoneProblem(name) === undefined ? name : "UTC";
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "longOffset",
  });
  const made = { zone, format };
  clocks.set(name, made);
  return made;
}

/** Creating a format costs a hundred times as much as using it, and zones are few. */
const clocks = new LruMap<string, Clock>(100);
