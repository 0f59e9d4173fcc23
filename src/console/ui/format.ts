/** Times, durations, counts and money as people read them. Pure. */

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** Returns `just now`, `5 min ago`, `in 3 h`, or a date. Both in Unix seconds. */
export function relativeTime(atSeconds: number, nowSeconds: number): string {
  const difference = atSeconds - nowSeconds;
  const distance = Math.abs(difference);
  if (distance < 10) return "just now";
  const amount = amountOf(distance);
  if (amount === undefined) return dateFormat.format(atSeconds * 1_000);
  return difference < 0 ? `${amount} ago` : `in ${amount}`;
}

function amountOf(seconds: number): string | undefined {
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  if (seconds < 7 * DAY) return `${Math.floor(seconds / DAY)} d`;
  return undefined;
}

const dateFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const timeFormat = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
});

/** Returns date and time with the name of the zone. */
export function absoluteTime(atSeconds: number): string {
  const { timeZone } = timeFormat.resolvedOptions();
  return `${timeFormat.format(atSeconds * 1_000)} (${timeZone})`;
}

/** Returns `85 ms`, `4.2 s`, `3 min 5 s` or `2 h 10 min`. */
export function duration(seconds: number): string {
  if (seconds < 0.001) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < MINUTE) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < HOUR) return joined(Math.floor(whole / MINUTE), "min", whole % MINUTE, "s");
  return joined(Math.floor(whole / HOUR), "h", Math.round((whole % HOUR) / MINUTE), "min");
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** Returns `4:52` for what is left of a deadline. */
export function countdown(seconds: number): string {
  const left = Math.max(0, Math.ceil(seconds));
  const rest = String(left % MINUTE).padStart(2, "0");
  return left < HOUR
    ? `${Math.floor(left / MINUTE)}:${rest}`
    : `${Math.floor(left / HOUR)} h ${Math.floor((left % HOUR) / MINUTE)} min`;
}

/** Returns `8.1k`, `1.2M`. */
export function compactCount(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 999_950) return `${trimmed(count / 1_000)}k`;
  return `${trimmed(count / 1_000_000)}M`;
}

function trimmed(value: number): string {
  return value.toFixed(1).replace(/\.0$/, "");
}

/** Returns a price in dollars; small ones keep their first digits. Null: the price is unknown. */
export function cost(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "unknown price";
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "under $0.0001";
  return usd < 0.1 ? `$${usd.toPrecision(2).replace(/(\.\d*?)0+$/, "$1")}` : `$${usd.toFixed(2)}`;
}

/** Returns `512 B`, `8.1 kB`, `3 MB`. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  if (count < 1_000_000) return `${trimmed(count / 1_000)} kB`;
  return `${trimmed(count / 1_000_000)} MB`;
}

/** Returns `1 run`, `2 runs`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
