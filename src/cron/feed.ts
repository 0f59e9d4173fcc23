/** What the change feed reports of jobs and their occurrences. */
import type { CronJobRow, OccurrenceRow } from "../store/schema/tables.ts";
import type { Tx } from "../store/store.ts";

type JobFields = Pick<CronJobRow, "id" | "owner" | "state" | "revision">;

/** Records a change of a job. `actor` is who made it; null: the scheduler. */
export function recordJob(
  tx: Tx,
  change: "created" | "updated" | "deleted",
  { id: ref, owner, state, revision }: JobFields,
  actor: string | null = null,
): void {
  tx.record({ type: `job.${change}`, ref, owner, data: { state, revision }, actor });
}

/** Records a new occurrence, or one whose status or delivery status changed. */
export function recordOccurrence(tx: Tx, change: "created" | "updated", row: OccurrenceRow): void {
  const data = {
    job_id: row.job_id,
    scheduled_at: row.scheduled_at / 1000,
    status: row.status,
    delivery_status: row.delivery_status,
  };
  tx.record({ type: `occurrence.${change}`, ref: row.id, owner: row.owner, data, actor: null });
}

/** Changes the status of the occurrence that equals `where`, and records that. Resolves to false if none matches. */
export async function changeOccurrence(
  tx: Tx,
  where: Partial<OccurrenceRow> & Pick<OccurrenceRow, "id">,
  columns: Partial<OccurrenceRow>,
): Promise<boolean> {
  if ((await tx.update("occurrences", where, columns)) === 0) return false;
  const row = await tx.find("occurrences", { id: where.id });
  if (row) recordOccurrence(tx, "updated", row);
  return true;
}
