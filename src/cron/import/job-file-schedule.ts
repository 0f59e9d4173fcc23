/** Schedules and times as files of other services write them. Pure. */
import { isRecord } from "../../base/json/schema.ts";

/** The text of a schedule as `parseSchedule` reads it, or what is wrong with it, a clause. */
export function fileSchedule(value: unknown): string | { readonly problem: string } {
  if (typeof value === "string" && value.trim() !== "") return value;
  if (!isRecord(value)) return { problem: "its schedule is no object" };
  const { kind, minutes, expr, expression, run_at: runAt, display } = value;
  if (kind === "interval" && typeof minutes === "number") return `every ${minutes}m`;
  if (kind === "cron" && typeof (expr ?? expression) === "string") return String(expr ?? expression);
  if (kind === "once") {
    const atMs = timeOf(runAt);
    return atMs === undefined ? { problem: "its time is none" } : isoOf(runAt, atMs);
  }
  if (kind === undefined && typeof display === "string" && display.trim() !== "") return display;
  return { problem: "its schedule is of no kind that is known" };
}

/** What names no offset is of the job's zone, and is left to it. */
function isoOf(value: unknown, atMs: number): string {
  const isLocal = typeof value === "string" && !/(?:[Zz]|[+-]\d{2}:?\d{2})$/.test(value.trim());
  return isLocal ? value.trim() : new Date(atMs).toISOString();
}

const MAX_MS = Date.UTC(10_000, 0, 1);

/** Milliseconds of ISO 8601 text or of a number of seconds; undefined for what is no time. */
export function timeOf(value: unknown): number | undefined {
  const ms = typeof value === "number" ? Math.round(value * 1000) : parse(value);
  return ms !== undefined && ms > 0 && ms < MAX_MS ? ms : undefined;
}

/** More digits of a second than three are no times in every engine. */
function parse(value: unknown): number | undefined {
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}/.test(value.trim())) return undefined;
  const ms = Date.parse(
    value
      .trim()
      .replace(" ", "T")
      .replace(/(\.\d{3})\d+/, "$1"),
  );
  return Number.isNaN(ms) ? undefined : ms;
}
