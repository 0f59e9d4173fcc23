import type { Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/tables.ts";

/** Notes in the occurrence, and its job, that what was owed for it has been sent, or will not be. */
export async function closeSettledOccurrence(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("occ_")) return;
  const row = await tx.find("occurrences", { id: ref });
  if (!row || row.delivery_status !== "pending") return;
  const messages = await tx.db
    .selectFrom("outbox")
    .select(["target", "status", "last_error"])
    .where("ref", "=", ref)
    .execute();
  if (messages.some(({ status }) => status === "due" || status === "leased")) return;
  const failed = messages.find(({ status }) => status === "dead" || status === "dropped");
  const unknown = messages.find(({ status }) => status === "unknown");
  const status = failed ? "failed" : unknown ? "unknown" : "delivered";
  const error = failed ?? unknown;
  const told = error ? `${error.target}: ${error.last_error ?? error.status}` : null;
  await tx.update("occurrences", { id: ref }, { delivery_status: status, delivery_error: told });
  if (status === "failed") {
    await tx.update(
      "cron_jobs",
      { id: row.job_id },
      { last_status: "delivery_failed", last_delivery_error: told },
    );
  }
}
