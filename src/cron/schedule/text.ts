/** Schedules as people write them. Pure. */
import { instantOf, nextRunMs } from "./instants.ts";
import { requireNotPast, scheduleError, type Schedule } from "../job/job.ts";
import { zoneProblem } from "../../base/suggest.ts";

const FORMS =
  "`every 30m`, `every 2h`, `every 1d`, `in 45m`, `daily`, `weekdays at 9am`, `monday, wednesday at 17:30`, " +
  "`0 9 * * 1-5` (minute, hour, day of month, month, day of week), `2026-12-24T18:00`";
const MAX_TEXT_CHARACTERS = 200;
const MAX_MINUTES = 5_256_000;
const NICKNAMES = new Set(["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"]);
/** What people type instead of a nickname. */
const WORDS: Readonly<Record<string, string>> = {
  hourly: "@hourly",
  daily: "@daily",
  weekly: "@weekly",
  monthly: "@monthly",
  yearly: "@yearly",
  noon: "0 12 * * *",
  midnight: "0 0 * * *",
};

/**
 * Parses a schedule as of `nowMs` in `zone` (IANA). ServiceError `invalid_request` with what to write instead: for other
 * text, an interval under a minute, a time that never occurs, and a time that has passed.
 */
export function parseSchedule(
  text: string,
  { nowMs, zone }: { readonly nowMs: number; readonly zone: string },
): Schedule {
  const problem = zoneProblem(zone);
  if (problem !== undefined) throw scheduleError(problem);
  const clean = text.trim().replace(/\s+/g, " ");
  if (clean.length > MAX_TEXT_CHARACTERS)
    throw scheduleError(`A schedule has at most ${MAX_TEXT_CHARACTERS} characters.`);
  const schedule =
    readDuration(clean, nowMs) ??
    readInstant(clean, zone) ??
    readCron(clean, { nowMs, zone }) ??
    readWords(clean);
  if (!schedule) throw scheduleError(`${JSON.stringify(clean)} is not a schedule. Use one of: ${FORMS}.`);
  requireNotPast(schedule, { nowMs, text: clean });
  return schedule;
}

const UNIT_MINUTES: Readonly<Record<string, number>> = { m: 1, h: 60, d: 1440 };

/** Parses `every 30m`, `every hour`, `in 2 hours`. A bare `30m` is ambiguous, so it is refused. */
function readDuration(text: string, nowMs: number): Schedule | undefined {
  const match =
    /^(?:(?<how>every|in) )?(?<count>\d{1,9})? ?(?<unit>m|mins?|minutes?|h|hrs?|hours?|d|days?)$/i.exec(
      text,
    )?.groups;
  if (!match) return undefined;
  const { how, count, unit = "" } = match;
  if (count === undefined && how === undefined) return undefined;
  const amount = `${count ?? 1}${unit[0]?.toLowerCase()}`;
  const minutes = Number(count ?? 1) * (UNIT_MINUTES[amount.slice(-1)] ?? 0);
  if (minutes < 1)
    throw scheduleError(
      `The shortest time is one minute: use \`${how?.toLowerCase() ?? "every"} 1m\` or more.`,
    );
  if (how === undefined) {
    throw scheduleError(`${text} may mean once or repeatedly: use \`every ${amount}\` or \`in ${amount}\`.`);
  }
  if (minutes > MAX_MINUTES) throw scheduleError("The longest time is ten years.");
  if (how.toLowerCase() === "every") return { kind: "interval", minutes };
  return { kind: "once", atMs: nowMs + minutes * 60_000 };
}

const INSTANT =
  /^(?<date>\d{4}-\d{2}-\d{2})(?:[Tt ](?<time>\d{2}:\d{2}(?::\d{2})?)(?:\.\d{1,9})?(?<offset>[Zz]|[+-]\d{2}:?\d{2})?)?$/;

/** Parses a date with or without a time of day; without an offset it is local time of the zone. */
function readInstant(text: string, zone: string): Schedule | undefined {
  const { date, time = "00:00", offset } = INSTANT.exec(text)?.groups ?? {};
  if (date === undefined) return undefined;
  const wall = `${date}T${time.length === 5 ? `${time}:00` : time}`;
  const asUtc = Date.parse(`${wall}Z`);
  // `Date.parse` accepts the 31st of any month and rolls over.
  if (Number.isNaN(asUtc) || new Date(asUtc).toISOString().slice(0, wall.length) !== wall) {
    throw scheduleError(`${text} is not a date of the calendar.`);
  }
  const atMs =
    offset === undefined
      ? instantOf(wall, zone)
      : Date.parse(`${wall}${offset.toUpperCase().replace(/^(.\d{2})(\d{2})$/, "$1:$2")}`);
  if (Number.isNaN(atMs)) throw scheduleError(`${text} has an invalid offset.`);
  return { kind: "once", atMs };
}

function readCron(
  text: string,
  { nowMs, zone }: { readonly nowMs: number; readonly zone: string },
): Schedule | undefined {
  const expression = text.startsWith("@") ? text.toLowerCase() : text;
  if (expression.startsWith("@") && !NICKNAMES.has(expression)) {
    throw scheduleError(`${expression} is unknown. The nicknames are ${[...NICKNAMES].join(", ")}.`);
  }
  const isFields = /^[\d*]/.test(text) && text.split(" ").length >= 5;
  if (!isFields && !expression.startsWith("@")) return undefined;
  if (isFields && text.split(" ").length > 5) {
    throw scheduleError(
      "A cron expression has five fields: minute, hour, day of month, month, day of week. Leave the seconds out.",
    );
  }
  const problem = isFields ? fieldProblem(text) : undefined;
  if (problem !== undefined) throw scheduleError(`${text} is not a cron expression: ${problem}.`);
  const schedule = { kind: "cron", expression } as const;
  if (isDue(schedule, { nowMs, zone })) return schedule;
  throw scheduleError(`${expression} never occurs: no month has that day.`);
}

/** The fields of a cron expression, in order. */
const FIELDS = [
  { name: "a minute", plain: "minute", min: 0, max: 59, hint: "" },
  { name: "an hour", plain: "hour", min: 0, max: 23, hint: "" },
  { name: "a day of the month", plain: "day of the month", min: 1, max: 31, hint: "" },
  { name: "a month", plain: "month", min: 1, max: 12, hint: "" },
  { name: "a day of the week", plain: "day of the week", min: 0, max: 7, hint: " (0 and 7 are Sunday)" },
] as const;

/** Returns what is wrong with the numbers of an expression, as people count: croner counts months and days from 0. */
function fieldProblem(expression: string): string | undefined {
  for (const [at, text] of expression.split(" ").entries()) {
    const field = FIELDS[at];
    if (!field) return undefined;
    const { name, plain, min, max, hint } = field;
    for (const item of text.split(",")) {
      const [, from, to, step] =
        /^(?:\*|\?|(\d{1,9})(?:-(\d{1,9}))?)[LW]?(?:#\d)?(?:\/(\d{1,9}))?$/i.exec(item) ?? [];
      const wrong = [from, to].find(
        (each) => each !== undefined && (Number(each) < min || Number(each) > max),
      );
      if (wrong !== undefined) return `${wrong} is not ${name}, which is ${min} to ${max}${hint}`;
      if (from !== undefined && to !== undefined && Number(from) > Number(to))
        return `the range ${from}-${to} goes backwards`;
      if (step !== undefined && Number(step) === 0) return "a step is at least 1";
      const most = max - min + (field.plain === "day of the week" ? 0 : 1);
      if (Number(step ?? 1) > most) return `the step ${step} of the ${plain} is more than ${most}`;
    }
  }
  return undefined;
}

function isDue(
  schedule: Extract<Schedule, { readonly kind: "cron" }>,
  { nowMs, zone }: { readonly nowMs: number; readonly zone: string },
): boolean {
  try {
    return nextRunMs(schedule, nowMs, zone) !== undefined;
  } catch (error) {
    const detail = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error);
    throw scheduleError(`${schedule.expression} is not a cron expression: ${detail.replace(/\.$/, "")}.`);
  }
}

function readWords(text: string): Schedule | undefined {
  const [, word = ""] = /^(?:(?:every|at) )?([a-z]+)$/.exec(text.toLowerCase()) ?? [];
  const expression = Object.hasOwn(WORDS, word) ? WORDS[word] : readWeekly(text);
  return expression === undefined ? undefined : { kind: "cron", expression };
}

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

/**
 * Parses times of the week in words, such as `weekdays at 9am`, into the five fields of cron. Undefined for any other text,
 * including a day without a time.
 */
function readWeekly(text: string): string | undefined {
  const { days = "", time = "", at } = PHRASE.exec(text.trim().toLowerCase())?.groups ?? {};
  const fields = [readDays(days), readTime(time, at !== undefined)] as const;
  if (fields[0] === undefined || fields[1] === undefined) return undefined;
  return `${fields[1].minute} ${fields[1].hour} * * ${fields[0]}`;
}

const PHRASE =
  /^(?:every\s+)?(?<days>[a-z]+(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+)[a-z]+)*)\s+(?<at>at\s+)?(?<time>\S+(?:\s*[ap]\.?m\.?)?)$/;

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

/** The abbreviations of calendars. */
function isShort(day: string, text: string): boolean {
  return ["tues", "weds", "thur", "thurs"].includes(text) && day.startsWith(text.slice(0, 3));
}

function readTime(
  text: string,
  isAfterAt: boolean,
): { readonly hour: number; readonly minute: number } | undefined {
  if (text === "noon") return { hour: 12, minute: 0 };
  if (text === "midnight") return { hour: 0, minute: 0 };
  const match = /^(?<hours>\d{1,2})(?::(?<minutes>\d{2}))?\s*(?<half>[ap]\.?m\.?)?$/.exec(text)?.groups;
  if (!match) return undefined;
  const { hours, minutes, half } = match;
  const [given, minute] = [Number(hours), Number(minutes ?? 0)];
  // Without `at`, a bare number could be a day. With it, the hour is one of 24.
  if (half === undefined && minutes === undefined && !isAfterAt) return undefined;
  if (minute > 59 || (half === undefined ? given > 23 : given < 1 || given > 12)) return undefined;
  const hour = half === undefined ? given : (given % 12) + (half.startsWith("p") ? 12 : 0);
  return { hour, minute };
}
