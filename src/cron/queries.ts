/** The SQL of cron: jobs, occurrences and schedulers. */
import { firstIdAt } from "../base/ids.ts";
import type { Store, Tx } from "../store/store.ts";
import type { CronJobRow, CronTickerRow, OccurrenceRow, OutboxRow } from "../store/schema/tables.ts";

/** Ids in one statement. */
const MAX_IDS = 500;

/** Returns all jobs in the order of their creation. */
export function listJobs({ read }: Store): Promise<CronJobRow[]> {
  return read.selectFrom("cron_jobs").selectAll().orderBy("created_at").orderBy("id").execute();
}

/** Returns at most `limit` jobs with the name, oldest first. */
export function findJobsNamed({ read }: Store, nameKey: string, limit: number): Promise<CronJobRow[]> {
  return read
    .selectFrom("cron_jobs")
    .selectAll()
    .where("name_key", "=", nameKey)
    .orderBy("created_at")
    .orderBy("id")
    .limit(limit)
    .execute();
}

export async function listJobNames({ read }: Store, limit: number): Promise<readonly string[]> {
  const rows = await read.selectFrom("cron_jobs").select("name").limit(limit).execute();
  return rows.map(({ name }) => name);
}

export async function countJobs(tx: Tx): Promise<number> {
  const counted = tx.db.selectFrom("cron_jobs").select(({ fn }) => fn.countAll().as("count"));
  return Number((await counted.executeTakeFirstOrThrow()).count);
}

/** Deletes a job and its ended occurrences. */
export async function deleteJob(tx: Tx, id: string): Promise<void> {
  // Ended occurrences are locked before their job, as when the end of a message is recorded.
  await tx.db.deleteFrom("occurrences").where("job_id", "=", id).where("ended_at", "is not", null).execute();
  await tx.db.deleteFrom("cron_jobs").where("id", "=", id).execute();
}

/** Returns at most `limit` due jobs, the longest due first. It skips jobs that another process has locked. */
export function lockDueJobs(
  tx: Tx,
  {
    store,
    untilMs,
    limit,
    jobId,
  }: {
    readonly store: Store;
    readonly untilMs: number;
    readonly limit: number;
    readonly jobId?: string | undefined;
  },
): Promise<CronJobRow[]> {
  const due = tx.db
    .selectFrom("cron_jobs")
    .selectAll()
    .where("due_at", "is not", null)
    .where("due_at", "<=", untilMs)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit);
  const selected = jobId === undefined ? due : due.where("id", "=", jobId);
  return (store.dialect === "postgres" ? selected.forUpdate().skipLocked() : selected).execute();
}

export type UpcomingJobRow = Pick<CronJobRow, "id" | "name" | "revision" | "due_at">;

/** Returns at most `limit` jobs in the order in which they are due. */
export function listUpcomingJobs({ read }: Store, limit: number): Promise<UpcomingJobRow[]> {
  return read
    .selectFrom("cron_jobs")
    .select(["id", "name", "revision", "due_at"])
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** Returns how many jobs were due before `beforeMs`. */
export async function countJobsDueBefore({ read }: Store, beforeMs: number): Promise<number> {
  const counted = await read
    .selectFrom("cron_jobs")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("due_at", "is not", null)
    .where("due_at", "<", beforeMs)
    .executeTakeFirst();
  return Number(counted?.count ?? 0);
}

export interface JobCount {
  readonly state: string;
  readonly lastStatus: string | null;
  readonly count: number;
}

/** Returns the number of jobs by state and last status, from an index. */
export async function countJobsByStatus({ read }: Store): Promise<readonly JobCount[]> {
  const rows = await read
    .selectFrom("cron_jobs")
    .select(({ fn }) => ["state", "last_status", fn.countAll().as("count")])
    .groupBy(["state", "last_status"])
    .execute();
  return rows.map(({ state, last_status: lastStatus, count }) => ({
    state,
    lastStatus,
    count: Number(count),
  }));
}

/** Returns the definitions of at most `limit` jobs in the state `error`. */
export async function listErrorDefinitions({ read }: Store, limit: number): Promise<readonly string[]> {
  const failed = read.selectFrom("cron_jobs").select("definition").where("state", "=", "error");
  return (await failed.limit(limit).execute()).map(({ definition }) => definition);
}

/** Returns at most `limit` jobs whose last run or its delivery failed, latest change first. */
export function listFailedJobs(
  { read }: Store,
  states: readonly string[],
  limit: number,
): Promise<Pick<CronJobRow, "id" | "name" | "last_status">[]> {
  return read
    .selectFrom("cron_jobs")
    .select(["id", "name", "last_status"])
    .where("state", "in", states)
    .where("last_status", "!=", "ok")
    .orderBy("updated_at", "desc")
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** Returns at most `limit` jobs with a time after `limitMs` in their past, in the order of their ids. */
export function listJobsAhead(
  tx: Tx,
  { after, limitMs, limit }: { readonly after: string; readonly limitMs: number; readonly limit: number },
): Promise<CronJobRow[]> {
  return tx.db
    .selectFrom("cron_jobs")
    .selectAll()
    .where("id", ">", after)
    .where((row) =>
      row.or([
        row("updated_at", ">", limitMs),
        row("last_run_at", ">", limitMs),
        row("created_at", ">", limitMs),
      ]),
    )
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** Returns a page of occurrences, newest first; `before` is the id of the last one of the previous page. */
export function listOccurrences(
  { read }: Store,
  {
    jobId,
    before,
    limit,
  }: { readonly jobId?: string | undefined; readonly before?: string | undefined; readonly limit: number },
): Promise<OccurrenceRow[]> {
  let query = read.selectFrom("occurrences").selectAll();
  if (jobId !== undefined) query = query.where("job_id", "=", jobId);
  if (before !== undefined) query = query.where("id", "<", before);
  return query.orderBy("id", "desc").limit(limit).execute();
}

export async function countOpenOccurrences({ read }: Store): Promise<number> {
  const open = read.selectFrom("occurrences").where("ended_at", "is", null);
  const row = await open.select(({ fn }) => fn.countAll().as("count")).executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Returns at most `limit` open occurrences without a run, oldest claim first. */
export function listOccurrencesWithoutRun({ read }: Store, limit: number): Promise<OccurrenceRow[]> {
  return read
    .selectFrom("occurrences")
    .selectAll()
    .where("ended_at", "is", null)
    .where("run_id", "is", null)
    .orderBy("claimed_at")
    .limit(limit)
    .execute();
}

/** Returns at most `limit` open occurrences whose run has ended or is deleted. */
export function listOrphans({ read }: Store, limit: number): Promise<OccurrenceRow[]> {
  return read
    .selectFrom("occurrences")
    .leftJoin("runs", "runs.id", "occurrences.run_id")
    .selectAll("occurrences")
    .where("occurrences.ended_at", "is", null)
    .where("occurrences.run_id", "is not", null)
    .where((is) => is.or([is("runs.id", "is", null), is("runs.ended_at", "is not", null)]))
    .limit(limit)
    .execute();
}

/** Extends the leases of open occurrences that `owner` still holds. */
export async function extendLeases(
  tx: Tx,
  {
    owner,
    ids,
    untilMs,
  }: { readonly owner: string; readonly ids: readonly string[]; readonly untilMs: number },
): Promise<void> {
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    await tx.db
      .updateTable("occurrences")
      .set({ lease_until: untilMs })
      .where("id", "in", ids.slice(start, start + MAX_IDS))
      .where("lease_owner", "=", owner)
      .where("ended_at", "is", null)
      .execute();
  }
}

/** Returns the ids of occurrences that have ended or are deleted. */
export async function endedAmong({ read }: Store, ids: readonly string[]): Promise<readonly string[]> {
  const open = new Set<string>();
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    const rows = await read
      .selectFrom("occurrences")
      .select("id")
      .where("id", "in", ids.slice(start, start + MAX_IDS))
      .where("ended_at", "is", null)
      .execute();
    for (const { id } of rows) open.add(id);
  }
  return ids.filter((id) => !open.has(id));
}

/** Returns how many missed instants the claim of `jobId` at `atMs` recorded; undefined when it recorded none. */
export async function missedCountAt(tx: Tx, jobId: string, atMs: number): Promise<number | undefined> {
  const missed = await tx.db
    .selectFrom("occurrences")
    .select("covers_count")
    .where("job_id", "=", jobId)
    .where("id", ">=", firstIdAt("occ", atMs))
    .where("status", "=", "missed")
    .where("claimed_at", "=", atMs)
    .executeTakeFirst();
  return missed?.covers_count;
}

export type OccurrenceMessage = Pick<OutboxRow, "target" | "status" | "last_error">;

/** Returns the outbox messages of an occurrence, oldest first. */
export function messagesOf(tx: Tx, ref: string): Promise<OccurrenceMessage[]> {
  return tx.db
    .selectFrom("outbox")
    .select(["target", "status", "last_error"])
    .where("ref", "=", ref)
    .orderBy("id")
    .execute();
}

/** Returns the schedulers that ticked last, at most `limit`. */
export function listTickers({ read }: Store, limit: number): Promise<CronTickerRow[]> {
  return read.selectFrom("cron_tickers").selectAll().orderBy("ticked_at", "desc").limit(limit).execute();
}

export async function deleteTicker(tx: Tx, owner: string): Promise<void> {
  await tx.db.deleteFrom("cron_tickers").where("owner", "=", owner).execute();
}
