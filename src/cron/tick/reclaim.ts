import type { Log } from "../../base/observe/log.ts";
import { isUnavailable } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { type Claimed, CLAIM_MS } from "./claim.ts";
import { LATE_MS } from "../schedule/due.ts";
import { endOccurrence } from "../run/end-occurrence.ts";
import { toJob, type Job } from "../job/job.ts";
import { planOccurrence, type Telling } from "../run/plan.ts";

/** Occurrences looked at in one round; more are found in the next. */
const BATCH = 200;
/** Names in one statement. */
const MAX_NAMES = 500;

export interface ReclaimRequest {
  readonly log: Log;
  readonly telling: Telling;
  readonly isMine: (occurrenceId: string) => boolean;
  /** How many there is room for. */
  readonly deps: number;
  /** True: only of processes that are known to be gone, whatever their leases say. */
  readonly onlyDead: boolean;
}

/**
 * Takes up what gone processes had in hand without a run: what was only claimed runs here, as far as there is room; what had
 * begun is unknown from now on, and not repeated. Runs themselves are recovered by the agent's room.
 */
export async function reclaim(store: Store, request: ReclaimRequest): Promise<readonly Claimed[]> {
  const open = await store.read
    .selectFrom("occurrences")
    .selectAll()
    .where("ended_at", "is", null)
    .where("run_id", "is", null)
    .orderBy("claimed_at")
    .limit(BATCH)
    .execute();
  const taken: Claimed[] = [];
  for (const row of open) {
    if (request.isMine(row.id) || (row.status === "claimed" && taken.length >= request.deps)) continue;
    try {
      const claimed = await takeOne(store, row, request);
      if (claimed) taken.push(claimed);
    } catch (error) {
      // Those already taken begin all the same.
      const told = { job: row.job_id, occurrence: row.id, error };
      request.log.error("an occurrence could not be taken over; it is tried again", told);
      if (isUnavailable(error)) break;
    }
  }
  return taken;
}

async function takeOne(
  store: Store,
  row: OccurrenceRow,
  { log, telling, onlyDead }: ReclaimRequest,
): Promise<Claimed | undefined> {
  const isDead = row.lease_owner === null || store.ownerIsDead(row.lease_owner);
  if (!isDead && onlyDead) return undefined;
  const told = { job: row.job_id, occurrence: row.id };
  return store.write(async (tx) => {
    if (!isDead && !(await isOver(tx, row))) return undefined;
    const found = await tx.find("cron_jobs", { id: row.job_id });
    const job = found && toJob(found);
    if (row.status === "running" || !job) {
      if (await endLost(tx, store, { occurrence: row, job, telling })) {
        tx.afterCommit(() => log.warn("what a job did is not known: its process is gone", told));
      }
      return undefined;
    }
    const isPaused = job.state === "paused" && row.cause !== "manual";
    const mine = isPaused ? left(tx) : taken(tx, row, store.owner);
    if ((await tx.update("occurrences", asSeen(row), mine)) === 0 || isPaused) return undefined;
    tx.afterCommit(() => log.info("took over a job whose process is gone", told));
    return { occurrence: { ...row, ...mine }, job };
  });
}

/** A lease that runs longer than any is of a clock that was put back: it ends like one from now. */
async function isOver(tx: Tx, row: OccurrenceRow): Promise<boolean> {
  const untilMs = row.lease_until ?? 0;
  const longestMs = tx.nowMs + CLAIM_MS;
  if (untilMs > longestMs) await tx.update("occurrences", asSeen(row), { lease_until: longestMs });
  return untilMs <= tx.nowMs;
}

function asSeen({ id, lease_owner, lease_until }: OccurrenceRow): Partial<OccurrenceRow> {
  return { id, lease_owner, lease_until, run_id: null, ended_at: null };
}

function taken(tx: Tx, row: OccurrenceRow, owner: string): Partial<OccurrenceRow> {
  const isLate = row.timing === "on_time" && tx.nowMs - row.scheduled_at > LATE_MS;
  // Messages say by how much, counted from the claim.
  const timing = isLate ? { timing: "late", claimed_at: tx.nowMs } : {};
  return { lease_owner: owner, lease_until: tx.nowMs + CLAIM_MS, ...timing };
}

function left(tx: Tx): Partial<OccurrenceRow> {
  const reason = "The job was paused before it began.";
  return { status: "skipped", reason, ended_at: tx.nowMs, lease_owner: null, lease_until: null };
}

/**
 * Ends what stayed open although its run has ended, or is gone: that is no process's any more, and would keep its job from
 * running for ever. Nobody knows what came of it.
 */
export async function endOrphans(
  store: Store,
  { log, telling }: Pick<ReclaimRequest, "log" | "telling">,
): Promise<void> {
  const orphans = await store.read
    .selectFrom("occurrences")
    .leftJoin("runs", "runs.id", "occurrences.run_id")
    .selectAll("occurrences")
    .where("occurrences.ended_at", "is", null)
    .where("occurrences.run_id", "is not", null)
    .where((is) => is.or([is("runs.id", "is", null), is("runs.ended_at", "is not", null)]))
    .limit(BATCH)
    .execute();
  for (const row of orphans) {
    log.error("an occurrence stayed open behind its run", { job: row.job_id, occurrence: row.id });
    await store.write(async (tx) => {
      const found = await tx.find("cron_jobs", { id: row.job_id });
      const job = found && toJob(found);
      const ending = { status: "unknown", text: "The end of its run was not noted." } as const;
      if (job) {
        await endOccurrence(tx, store, { plan: planOccurrence({ occurrence: row, job }, telling), ending });
        return;
      }
      const ended = { status: "unknown", reason: ending.text, ended_at: tx.nowMs, delivery_status: "none" };
      await tx.update("occurrences", { id: row.id, ended_at: null }, ended);
    });
  }
}

/** Moves the leases of occurrences on that are in hand here and still this process's. */
export async function renewClaims(tx: Tx, owner: string, ids: readonly string[]): Promise<void> {
  for (let start = 0; start < ids.length; start += MAX_NAMES) {
    await tx.db
      .updateTable("occurrences")
      .set({ lease_until: tx.nowMs + CLAIM_MS })
      .where("id", "in", ids.slice(start, start + MAX_NAMES))
      .where("lease_owner", "=", owner)
      .where("ended_at", "is", null)
      .execute();
  }
}

/** Which of these have ended, or are not on record any more. */
export async function endedOf(store: Store, ids: readonly string[]): Promise<readonly string[]> {
  const open = new Set<string>();
  for (let start = 0; start < ids.length; start += MAX_NAMES) {
    const rows = await store.read
      .selectFrom("occurrences")
      .select("id")
      .where("id", "in", ids.slice(start, start + MAX_NAMES))
      .where("ended_at", "is", null)
      .execute();
    for (const { id } of rows) open.add(id);
  }
  return ids.filter((id) => !open.has(id));
}

/** Lets go of what this process claimed and has not begun: others take it over at once. */
export async function releaseClaims(tx: Tx, owner: string): Promise<void> {
  const unbegun = { lease_owner: owner, status: "claimed", run_id: null, ended_at: null } as const;
  await tx.update("occurrences", unbegun, { lease_owner: null, lease_until: null });
}

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
