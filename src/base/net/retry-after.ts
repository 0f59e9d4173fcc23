/** Longer delays exceed what a timer can hold. */
const MAX_MS = 86_400_000;

/**
 * Parses the header `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3). Returns milliseconds from now, at most a
 * day; undefined when it is absent or invalid.
 */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim() ?? "";
  if (/^\d{1,15}(\.\d{1,15})?$/.test(value)) return Math.min(Number(value) * 1000, MAX_MS);
  // `Date.parse` accepts almost any text; HTTP dates end in GMT.
  const dateMs = value.endsWith(" GMT") ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : Math.min(Math.max(0, dateMs - nowMs), MAX_MS);
}
