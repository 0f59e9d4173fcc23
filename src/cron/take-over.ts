import type { Log } from "../base/log.ts";
import type { Store } from "../store/store.ts";
import type { OccurrenceRow } from "../store/tables.ts";
import { CLAIM_MS, type Claimed } from "./claim.ts";
import { toJob } from "./job.ts";

/** Occurrences looked at in one round; more are found in the next. */
const BATCH = 200;

/**
 * Takes up what gone processes had in hand without a run: what was only claimed runs here; what had begun is unknown from
 * now on, and not repeated. Runs themselves are recovered by the agent's room.
 */
export async function takeOver(
  store: Store,
  { log, isMine }: { readonly log: Log; readonly isMine: (occurrenceId: string) => boolean },
): Promise<readonly Claimed[]> {
  const open = await store.read
    .selectFrom("occurrences")
    .selectAll()
    .where("ended_at", "is", null)
    .where("run_id", "is", null)
    .limit(BATCH)
    .execute();
  const taken: Claimed[] = [];
  for (const row of open) {
    if (isMine(row.id)) continue;
    const claimed = await takeOne(store, row);
    if (!claimed) continue;
    log.info("took over a job whose process is gone", { job: row.job_id, occurrence: row.id });
    taken.push(claimed);
  }
  return taken;
}

async function takeOne(store: Store, row: OccurrenceRow): Promise<Claimed | undefined> {
  const isDead = row.lease_owner === null || store.ownerIsDead(row.lease_owner);
  return store.write(async (tx) => {
    if (!isDead && (row.lease_until ?? 0) > tx.nowMs) return undefined;
    const old = {
      id: row.id,
      lease_owner: row.lease_owner,
      lease_until: row.lease_until,
      run_id: null,
      ended_at: null,
    };
    const isRunning = row.status === "running";
    const mine = isRunning
      ? { status: "unknown", ended_at: tx.nowMs, reason: "The process that ran its script is gone." }
      : { lease_owner: store.owner, lease_until: tx.nowMs + CLAIM_MS };
    if ((await tx.update("occurrences", old, mine)) === 0 || isRunning) return undefined;
    const job = await tx.find("cron_jobs", { id: row.job_id });
    const found = job && toJob(job);
    return found && { occurrence: { ...row, ...mine }, job: found };
  });
}
