/** What no timer can hold is taken for this. */
const MAX_MS = 86_400_000;

/**
 * The header `Retry-After` in milliseconds from now: seconds, or a date (RFC 9110, 10.2.3); at most a day.
 * Undefined when it is absent or says neither.
 */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim() ?? "";
  if (/^\d{1,15}(\.\d{1,15})?$/.test(value)) return Math.min(Number(value) * 1000, MAX_MS);
  // Engines read dates out of almost any text; those of HTTP end like this.
  const dateMs = value.endsWith(" GMT") ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : Math.min(Math.max(0, dateMs - nowMs), MAX_MS);
}
