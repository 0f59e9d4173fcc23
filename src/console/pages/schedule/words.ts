/** Schedules in plain words. Pure. */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
] as const;
const NICKNAMES: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

/**
 * Returns what a schedule as the API writes it means: `0 9 * * 1-5` is "On weekdays at 09:00". Undefined for one that has no
 * short description, such as the last Friday of a month.
 */
export function wordsOf(schedule: string): string | undefined {
  const every = /^every (\d+)([mhd])$/.exec(schedule);
  if (every) return `Every ${amount(Number(every[1]), UNITS[every[2] ?? ""] ?? "")}`;
  if (/^\d{4}-/.test(schedule)) return "Once";
  const fields = (NICKNAMES[schedule] ?? schedule).toUpperCase().split(" ");
  const [minute = "", hour = "", date = "", month = "", day = ""] = fields;
  if (fields.length !== 5) return undefined;
  const times = timesOf(minute, hour);
  const days = daysOf(date, month, day);
  if (times === undefined || days === undefined) return undefined;
  const words = days === "" || days === "every day" ? joined(times, days) : `${days} ${times}`;
  return (words[0] ?? "").toUpperCase() + words.slice(1);
}

const UNITS: Readonly<Record<string, string>> = { m: "minute", h: "hour", d: "day" };

/** A time of day stands behind the day; a rhythm needs no day. */
function joined(times: string, days: string): string {
  return times.startsWith("at ") ? `${days} ${times}`.trim() : times;
}

function amount(count: number, unit: string): string {
  return count === 1 ? unit : `${count} ${unit}s`;
}

function timesOf(minute: string, hour: string): string | undefined {
  const minutes = numbersOf(minute, 0, 59);
  const hours = numbersOf(hour, 0, 23);
  if (!minutes || !hours) return undefined;
  const step = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (minute === "*" || step !== undefined) {
    // Steps that do not divide the hour begin anew with each hour.
    if (step !== undefined && 60 % Number(step) !== 0) return undefined;
    const rhythm = `every ${amount(Number(step ?? 1), "minute")}`;
    return hour === "*" ? rhythm : isRange(hour) ? `${rhythm} ${between(hours)}` : undefined;
  }
  const [first = 0] = minutes;
  if (minutes.length > 1) return hours.length * minutes.length <= 4 ? clock(hours, minutes) : undefined;
  const past = first === 0 ? "" : ` at ${amount(first, "minute")} past`;
  if (hour === "*") return first === 0 ? "every hour" : `every hour${past}`;
  const hourStep = /^\*\/(\d+)$/.exec(hour)?.[1];
  if (hourStep !== undefined && 24 % Number(hourStep) === 0) {
    return `every ${amount(Number(hourStep), "hour")}${first === 0 ? "" : ` at minute ${first}`}`;
  }
  if (isRange(hour)) return `every hour${past} ${between(hours)}`;
  return hours.length <= 4 ? clock(hours, minutes) : undefined;
}

function isRange(field: string): boolean {
  return /^\d+-\d+$/.test(field);
}

function between(hours: readonly number[]): string {
  return `from ${time(hours[0] ?? 0, 0)} to ${time(hours.at(-1) ?? 0, 59)}`;
}

function clock(hours: readonly number[], minutes: readonly number[]): string {
  return `at ${listed(hours.flatMap((hour) => minutes.map((minute) => time(hour, minute))))}`;
}

function time(hour: number, minute: number): string {
  return `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;
}

function daysOf(date: string, month: string, day: string): string | undefined {
  const isAnyDate = date === "*" || date === "?";
  const isAnyDay = day === "*" || day === "?";
  const weekdays = isAnyDay ? [] : numbersOf(named(day, DAYS, 0), 0, 7);
  const dates = isAnyDate ? [] : numbersOf(date, 1, 31);
  const months = month === "*" ? [] : numbersOf(named(month, MONTHS, 1), 1, 12);
  if (!weekdays || !dates || !months || dates.length > 5) return undefined;
  const parts = [
    ...(dates.length > 0 ? [`on the ${listed(dates.map(ordinal))}`] : []),
    ...(weekdays.length > 0 ? [weekdayWords(weekdays)] : []),
  ];
  const inMonths = months.length > 0 ? `in ${listed(months.map((each) => MONTHS[each - 1] ?? ""))}` : "";
  // Cron runs on days that fit either field.
  const when = parts.length === 0 ? "every day" : parts.join(" and ");
  return inMonths === "" ? when : `${when} ${inMonths}`;
}

function weekdayWords(days: readonly number[]): string {
  const sorted = [...new Set(days.map((each) => each % 7))].toSorted((a, b) => ((a + 6) % 7) - ((b + 6) % 7));
  const key = sorted.join("");
  if (key === "12345") return "on weekdays";
  if (key === "60") return "on weekends";
  if (key.length === 7) return "every day";
  return `on ${listed(sorted.map((each) => `${DAYS[each]}s`))}`;
}

/** Replaces names such as MON or DEC by their numbers. */
function named(field: string, names: readonly string[], first: number): string {
  return field.replace(/[A-Z]{3}/g, (name) => {
    const at = names.findIndex((each) => each.slice(0, 3).toUpperCase() === name);
    return at < 0 ? name : String(at + first);
  });
}

/** Returns the numbers of a field of lists, ranges and steps. Undefined for anything else, such as `L`, `W` and `#`. */
function numbersOf(field: string, min: number, max: number): readonly number[] | undefined {
  const found = field.split(",").map((item) => {
    const match = /^(?:\*|(\d+)(?:-(\d+))?)(?:\/(\d+))?$/.exec(item);
    if (!match) return undefined;
    const [, from, to, step] = match;
    const start = Number(from ?? min);
    const end = Number(to ?? (from !== undefined && step === undefined ? from : max));
    const by = Number(step ?? 1);
    return Array.from(
      { length: Math.max(0, Math.floor((end - start) / by) + 1) },
      (_, index) => start + index * by,
    );
  });
  if (found.some((each) => each === undefined)) return undefined;
  return [...new Set(found.flatMap((each) => each ?? []))].toSorted((a, b) => a - b);
}

function ordinal(date: number): string {
  const ending = date % 100 >= 11 && date % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][date % 10] ?? "th");
  return `${date}${ending}`;
}

function listed(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
