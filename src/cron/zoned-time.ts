/** Instants as people read them in a zone. Pure. */

/** `2026-01-05 13:00:00 +01:00 (Europe/Berlin)`: the offset tells apart the two hours of clocks that go back. */
export function zonedTime(atMs: number, zone: string): string {
  if (Math.abs(atMs) > MAX_TIME_MS) return "at no time that a calendar has";
  const parts = partsOf(atMs, zone);
  if (!parts) return `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")} +00:00 (UTC)`;
  const of = (type: Intl.DateTimeFormatPartTypes) => parts.find((part) => part.type === type)?.value ?? "";
  const offset = of("timeZoneName").replace(/^(GMT|UTC)/, "") || "+00:00";
  const date = `${of("year")}-${of("month")}-${of("day")}`;
  return `${date} ${of("hour")}:${of("minute")}:${of("second")} ${offset} (${zone})`;
}

const MAX_TIME_MS = 8.64e15;

/** Undefined: the data of this runtime have no such zone (any more). */
function partsOf(atMs: number, zone: string): readonly Intl.DateTimeFormatPart[] | undefined {
  try {
    return formatOf(zone).formatToParts(atMs);
  } catch {
    return undefined;
  }
}

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-CA", {
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
  if (formats.size >= MAX_FORMATS) formats.clear();
  formats.set(zone, made);
  return made;
}

/** Making one costs a hundred times what asking it does, and there are few zones. */
const formats = new Map<string, Intl.DateTimeFormat>();
const MAX_FORMATS = 100;
