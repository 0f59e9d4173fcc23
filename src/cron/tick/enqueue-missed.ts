import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { Job } from "../job/job.ts";
import { missedText } from "../run/message.ts";
import { keptOutput } from "../output/output.ts";
import { OUTPUT_TARGET, outputFileName } from "../output/name.ts";
import { planOccurrence, type Telling } from "../run/plan.ts";

/**
 * Tells, in the transaction that notes it, that the one time of a job passed and nobody saw it: those who would be told of
 * a failure, and a file among the outputs.
 */
export async function enqueueMissed(
  tx: Tx,
  store: Store,
  about: {
    readonly job: Job;
    /** The row as it was inserted, `missed`. */
    readonly occurrence: OccurrenceRow;
    readonly telling: Telling;
  },
): Promise<void> {
  const { job, occurrence, telling } = about;
  const { zone } = job.definition;
  const file = occurrence.output_file ?? outputFileName({ atMs: tx.nowMs, zone, cause: "schedule" });
  const plan = planOccurrence({ job, occurrence: { ...occurrence, output_file: file } }, telling);
  const text = missedText(plan);
  const { ref, failureTargets: told } = plan;
  const ending = { status: "failed", text: missedText({ ...plan, wraps: false }) } as const;
  await store.outbox.enqueue(tx, { target: OUTPUT_TARGET, payload: keptOutput(plan, ending), ref });
  for (const target of told) await store.outbox.enqueue(tx, { target, payload: { text, extra: {} }, ref });
  const delivery = told.length > 0 ? "pending" : "none";
  await tx.update("occurrences", { id: ref }, { output_file: file, delivery_status: delivery });
  const noted = { last_status: "missed", last_error: occurrence.reason, last_delivery_error: null };
  await tx.update("cron_jobs", { id: job.id }, { ...noted, last_occurrence: ref });
}
