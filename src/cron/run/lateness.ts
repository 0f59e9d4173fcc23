import type { Store } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { Timing } from "../tick/occurrence.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

/** How far an occurrence is behind its time. */
export interface Lateness {
  readonly timing: Timing;
  readonly scheduledAtMs: number;
  /** The instants before it that nobody ran. */
  readonly missed?: { readonly fromMs: number; readonly untilMs: number; readonly count: number };
}

export async function readLateness(store: Store, occurrence: OccurrenceRow): Promise<Lateness> {
  const { job_id: jobId, scheduled_at: scheduledAtMs, claimed_at: claimedAt } = occurrence;
  const timing = occurrence.timing as Timing;
  if (timing !== "catch_up") return { timing, scheduledAtMs };
  // Those were written down in the transaction of the claim.
  const row = await store.find("occurrences", { job_id: jobId, claimed_at: claimedAt, status: "missed" });
  if (!row) return { timing, scheduledAtMs };
  const { scheduled_at: fromMs, covers_until: untilMs, covers_count: count } = row;
  return { timing, scheduledAtMs, missed: { fromMs, untilMs: untilMs ?? fromMs, count } };
}

/** What the agent is told of it; undefined when it is in time. */
export function latenessNotice(
  { timing, scheduledAtMs, missed }: Lateness,
  zone: string,
): string | undefined {
  if (timing === "on_time") return undefined;
  const due = `It was due at ${zonedTime(scheduledAtMs, zone)} and begins late: mind that where the task speaks of times.`;
  if (!missed) return due;
  const [from, until] = [zonedTime(missed.fromMs, zone), zonedTime(missed.untilMs, zone)];
  const which = missed.count === 1 ? `the run of ${from}` : `${missed.count} runs, from ${from} to ${until}`;
  return `${due} It also stands for what was missed while no scheduler was at work: ${which}. Do the task once for all of them.`;
}
