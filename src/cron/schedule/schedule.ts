/** When a job is due: kept, and shown. Pure; it computes nothing, so that it loads nothing. */

/** When a job is due. */
export type Schedule =
  /** Once, at an instant, Unix milliseconds. */
  | { readonly kind: "once"; readonly atMs: number }
  /** Again and again; elapsed time, whatever the clocks on the wall do. */
  | { readonly kind: "interval"; readonly minutes: number }
  /** By the clock on the wall: five fields (minute, hour, day of month, month, day of week), or `@daily` and the like. */
  | { readonly kind: "cron"; readonly expression: string };

/** The schedule as `list` shows it, and as it can be typed again. */
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
