/** Durations, token counts and money in few characters. */

/** `0.4 s`, `12 s`, `3:07`, `1:02:09`. */
export function durationText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  const pad = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes}:${pad(whole % 60)}`
    : `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${pad(whole % 60)}`;
}

/** `950`, `12.4k`, `200k`, `1.2M`. */
export function countText(count: number): string {
  if (count < 1_000) return String(Math.round(count));
  const [value, unit] = count < 999_500 ? [count / 1_000, "k"] : [count / 1_000_000, "M"];
  return `${value < 100 ? Number(value.toFixed(1)) : Math.round(value)}${unit}`;
}

/** `$0.0042`, `$1.30`. */
export function moneyText(dollars: number): string {
  return `$${dollars.toFixed(dollars > 0 && dollars < 0.1 ? 4 : 2)}`;
}

/** How long ago, in one unit: `now`, `5 min`, `3 h`, `2 d`. */
export function agoText(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  return minutes < 24 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
}

/** `… 1 more line`, `… 32 more lines`. */
export function moreLinesText(count: number): string {
  return `… ${count} more line${count === 1 ? "" : "s"}`;
}
