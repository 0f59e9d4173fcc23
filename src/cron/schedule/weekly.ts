/** Times of the week in words, such as `weekdays at 9am`, as the five fields of cron. Pure. */

const DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"] as const;
const SETS: Readonly<Record<string, string>> = {
  daily: "*",
  day: "*",
  weekday: "1-5",
  weekdays: "1-5",
  weekend: "0,6",
  weekends: "0,6",
};

/** Undefined when the text is something else. A day without a time of day is none: nobody knows when it is meant. */
export function readWeekly(text: string): string | undefined {
  const { days = "", time = "" } = PHRASE.exec(text.trim().toLowerCase())?.groups ?? {};
  const fields = [readDays(days), readTime(time)] as const;
  if (fields[0] === undefined || fields[1] === undefined) return undefined;
  return `${fields[1].minute} ${fields[1].hour} * * ${fields[0]}`;
}

const PHRASE =
  /^(?:every\s+)?(?<days>[a-z]+(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+)[a-z]+)*)\s+(?:at\s+)?(?<time>\S+(?:\s*[ap]\.?m\.?)?)$/;

function readDays(text: string): string | undefined {
  const set = Object.hasOwn(SETS, text) ? SETS[text] : undefined;
  if (set !== undefined) return set;
  const numbers = text.split(/\s*,\s*and\s+|\s*,\s*|\s+and\s+/).map(dayNumber);
  if (numbers.includes(-1)) return undefined;
  return [...new Set(numbers)].sort((a, b) => a - b).join(",");
}

/** `mon`, `monday`, `mondays`. */
function dayNumber(text: string): number {
  const name = text.replace(/s$/, "");
  if (name.length < 3) return -1;
  return DAYS.findIndex(
    (day) => day === name || day === text || day.slice(0, 3) === name || isShort(day, text),
  );
}

/** As calendars write them: tues, wednes, thur, thurs. */
function isShort(day: string, text: string): boolean {
  return ["tues", "weds", "thur", "thurs"].includes(text) && day.startsWith(text.slice(0, 3));
}

function readTime(text: string): { readonly hour: number; readonly minute: number } | undefined {
  if (text === "noon") return { hour: 12, minute: 0 };
  if (text === "midnight") return { hour: 0, minute: 0 };
  const match = /^(?<hours>\d{1,2})(?::(?<minutes>\d{2}))?\s*(?<half>[ap]\.?m\.?)?$/.exec(text)?.groups;
  if (!match) return undefined;
  const { hours, minutes, half } = match;
  const [given, minute] = [Number(hours), Number(minutes ?? 0)];
  // A bare number could be a day or an hour of either half.
  if (half === undefined && minutes === undefined) return undefined;
  if (minute > 59 || (half === undefined ? given > 23 : given < 1 || given > 12)) return undefined;
  const hour = half === undefined ? given : (given % 12) + (half.startsWith("p") ? 12 : 0);
  return { hour, minute };
}
