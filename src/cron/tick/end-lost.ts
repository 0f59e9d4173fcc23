import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { endOccurrence } from "../run/end-occurrence.ts";
import type { Job } from "../job/job.ts";
import { planOccurrence, type Telling } from "../run/plan.ts";

const LOST = "The process that ran its script is gone.";

/**
 * Ends an occurrence that had begun, and had no run yet when its process went: nobody knows what it did, and people are
 * told. Of a job that is gone, too, only the record remains. False when somebody else has it in hand, or ended it.
 */
export async function endLost(
  tx: Tx,
  store: Store,
  about: {
    /** The row as it was seen. */
    readonly occurrence: OccurrenceRow;
    readonly job: Job | undefined;
    readonly telling: Telling;
  },
): Promise<boolean> {
  const { occurrence, job, telling } = about;
  const { id, lease_owner, lease_until } = occurrence;
  const seen = { id, lease_owner, lease_until, run_id: null, ended_at: null };
  if (!job) {
    const ended = { status: "unknown", reason: LOST, ended_at: tx.nowMs, delivery_status: "none" };
    return (await tx.update("occurrences", seen, { ...ended, lease_owner: null, lease_until: null })) === 1;
  }
  // Jobs are locked before occurrences, as by other ends.
  await tx.increment("cron_jobs", { id: job.id }, "revision", 0);
  if ((await tx.update("occurrences", seen, { lease_owner: store.owner })) === 0) return false;
  const plan = planOccurrence({ occurrence, job }, telling);
  return endOccurrence(tx, store, { plan, ending: { status: "unknown", text: LOST }, isMine: true });
}
