/** When a job is due. Pure; it loads nothing that computes instants. */
import { ServiceError } from "../../base/errors.ts";

export type Schedule =
  /** Once, at an instant, Unix milliseconds. */
  | { readonly kind: "once"; readonly atMs: number }
  /** Repeatedly, in elapsed time: clock changes do not matter. */
  | { readonly kind: "interval"; readonly minutes: number }
  /** By local time: five fields (minute, hour, day of month, month, day of week), or `@daily` and the like. */
  | { readonly kind: "cron"; readonly expression: string };

/** A one-shot may be this late, also when it is created: writing its text takes time. */
export const ONCE_GRACE_MS = 120_000;

/** Throws when the time of a one-shot has passed. */
export function requireNotPast(
  schedule: Schedule,
  { nowMs, text }: { readonly nowMs: number; readonly text: string },
): void {
  if (schedule.kind !== "once" || schedule.atMs >= nowMs - ONCE_GRACE_MS) return;
  throw scheduleError(
    `${text} is more than ${ONCE_GRACE_MS / 1000} s in the past and cannot be scheduled. Use a future time.`,
  );
}

export function scheduleError(message: string): ServiceError {
  return new ServiceError("invalid_request", message, { param: "schedule" });
}

/** Returns the schedule as `list` shows it, in a form that can be typed again. */
export function formatSchedule(schedule: Schedule): string {
  switch (schedule.kind) {
    case "once":
      return new Date(schedule.atMs).toISOString().replace(".000Z", "Z");
    case "interval": {
      const { minutes } = schedule;
      const unit = UNITS.find((each) => minutes % each.minutes === 0);
      return unit ? `every ${minutes / unit.minutes}${unit.letter}` : `every ${minutes}m`;
    }
    case "cron":
      return schedule.expression;
  }
}

const UNITS = [
  { minutes: 1440, letter: "d" },
  { minutes: 60, letter: "h" },
] as const;
