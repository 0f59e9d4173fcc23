/** The SQL of cron: jobs, occurrences and schedulers. */
import { sql } from "kysely";
import { firstIdAt } from "../base/text.ts";
import type { Store, Tx } from "../store/store.ts";
import type { CronJobRow, CronTickerRow, OccurrenceRow, OutboxRow } from "../store/schema/tables.ts";

/**
 * Whether a run belongs to a scheduled job, by the first characters of its column `delivery`: the record of another
 * trigger is not parsed.
 */
export function isPlan(delivery: string): boolean {
  return delivery.startsWith('{"ref":"occ_');
}

/** Ids in one statement. */
const MAX_IDS = 500;

/** Whose rows a query reads. */
export interface OwnerFilter {
  /** Absent: those of all owners. */
  readonly owner?: string | undefined;
}

/** Returns all jobs in the order of their creation. */
export function listJobs({ read }: Store, { owner }: OwnerFilter = {}): Promise<CronJobRow[]> {
  const jobs = read.selectFrom("cron_jobs").selectAll().orderBy("created_at").orderBy("id");
  return (owner === undefined ? jobs : jobs.where("owner", "=", owner)).execute();
}

/** Returns at most `limit` jobs with the name, oldest first. */
export function findJobsNamed(
  { read }: Store,
  { owner, nameKey, limit }: OwnerFilter & { readonly nameKey: string; readonly limit: number },
): Promise<CronJobRow[]> {
  const named = read
    .selectFrom("cron_jobs")
    .selectAll()
    .where("name_key", "=", nameKey)
    .orderBy("created_at")
    .orderBy("id")
    .limit(limit);
  return (owner === undefined ? named : named.where("owner", "=", owner)).execute();
}

export async function listJobNames(
  { read }: Store,
  { owner, limit }: OwnerFilter & { readonly limit: number },
): Promise<readonly string[]> {
  const names = read.selectFrom("cron_jobs").select("name").limit(limit);
  const rows = await (owner === undefined ? names : names.where("owner", "=", owner)).execute();
  return rows.map(({ name }) => name);
}

export interface JobFilter extends OwnerFilter {
  readonly states?: readonly string[] | undefined;
  readonly lastStatuses?: readonly string[] | undefined;
  /** As in the column `name_key`. */
  readonly nameKey?: string | undefined;
  /** A part of the name in any case, or the id. */
  readonly text?: string | undefined;
  /** The last job of the previous page. */
  readonly after?: { readonly createdAtMs: number; readonly id: string } | undefined;
  readonly limit: number;
}

/** Returns a page of jobs, newest first. */
export function listJobPage({ read, dialect }: Store, filter: JobFilter): Promise<CronJobRow[]> {
  const { owner, states, lastStatuses, nameKey, text, after, limit } = filter;
  let query = read.selectFrom("cron_jobs").selectAll();
  if (owner !== undefined) query = query.where("owner", "=", owner);
  if (states !== undefined) query = query.where("state", "in", states);
  if (lastStatuses !== undefined) query = query.where("last_status", "in", lastStatuses);
  if (nameKey !== undefined) query = query.where("name_key", "=", nameKey);
  if (text !== undefined) {
    const find = dialect === "postgres" ? "strpos" : "instr";
    query = query.where((is) =>
      is.or([
        is(is.fn<number>(find, ["name_key", is.val(text.normalize("NFC").toLowerCase())]), ">", 0),
        is("id", "=", text),
      ]),
    );
  }
  if (after !== undefined) {
    query = query.where((is) =>
      is.or([
        is("created_at", "<", after.createdAtMs),
        is.and([is("created_at", "=", after.createdAtMs), is("id", "<", after.id)]),
      ]),
    );
  }
  return query.orderBy("created_at", "desc").orderBy("id", "desc").limit(limit).execute();
}

export async function countJobs(tx: Tx): Promise<number> {
  const counted = tx.db.selectFrom("cron_jobs").select(({ fn }) => fn.countAll().as("count"));
  return Number((await counted.executeTakeFirstOrThrow()).count);
}

/** Deletes a job and its ended occurrences; with `unstarted`, also those that have no run yet. */
export async function deleteJob(
  tx: Tx,
  id: string,
  { unstarted = false }: { readonly unstarted?: boolean | undefined } = {},
): Promise<void> {
  // Ended occurrences are locked before their job, as when the end of a message is recorded.
  const mine = tx.db.deleteFrom("occurrences").where("job_id", "=", id);
  await mine.where("ended_at", "is not", null).execute();
  if (unstarted) await mine.where("run_id", "is", null).execute();
  await tx.db.deleteFrom("cron_jobs").where("id", "=", id).execute();
}

/** Returns the sessions of the occurrences of a job that are open and have a run. */
export async function listRunningSessions({ read }: Store, jobId: string): Promise<readonly string[]> {
  const rows = await read
    .selectFrom("occurrences")
    .select("session_id")
    .where("job_id", "=", jobId)
    .where("ended_at", "is", null)
    .where("session_id", "is not", null)
    .execute();
  return rows.flatMap(({ session_id: id }) => id ?? []);
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

export type UpcomingJobRow = Pick<CronJobRow, "id" | "name" | "lock_version" | "due_at">;

/** Returns at most `limit` jobs in the order in which they are due. */
export function listUpcomingJobs(
  { read }: Store,
  limit: number,
  { owner }: OwnerFilter = {},
): Promise<UpcomingJobRow[]> {
  const upcoming = read
    .selectFrom("cron_jobs")
    .select(["id", "name", "lock_version", "due_at"])
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit);
  return (owner === undefined ? upcoming : upcoming.where("owner", "=", owner)).execute();
}

/** Returns how many jobs were due before `beforeMs`. */
export async function countJobsDueBefore(
  { read }: Store,
  beforeMs: number,
  { owner }: OwnerFilter = {},
): Promise<number> {
  const due = read
    .selectFrom("cron_jobs")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("due_at", "is not", null)
    .where("due_at", "<", beforeMs);
  const counted = await (owner === undefined ? due : due.where("owner", "=", owner)).executeTakeFirst();
  return Number(counted?.count ?? 0);
}

export interface JobCount {
  readonly state: string;
  readonly lastStatus: string | null;
  readonly count: number;
}

/** Returns the number of jobs by state and last status, from an index. */
export async function countJobsByStatus(
  { read }: Store,
  { owner }: OwnerFilter = {},
): Promise<readonly JobCount[]> {
  const counted = read
    .selectFrom("cron_jobs")
    .select(({ fn }) => ["state", "last_status", fn.countAll().as("count")])
    .groupBy(["state", "last_status"]);
  const rows = await (owner === undefined ? counted : counted.where("owner", "=", owner)).execute();
  return rows.map(({ state, last_status: lastStatus, count }) => ({
    state,
    lastStatus,
    count: Number(count),
  }));
}

/** Returns the definitions of at most `limit` jobs in the state `error`. */
export async function listErrorDefinitions(
  { read }: Store,
  limit: number,
  { owner }: OwnerFilter = {},
): Promise<readonly string[]> {
  const all = read.selectFrom("cron_jobs").select("definition").where("state", "=", "error").limit(limit);
  const failed = owner === undefined ? all : all.where("owner", "=", owner);
  return (await failed.execute()).map(({ definition }) => definition);
}

/** Returns at most `limit` jobs whose last run or its delivery failed, latest change first. */
export function listFailedJobs(
  { read }: Store,
  states: readonly string[],
  limit: number,
  { owner }: OwnerFilter = {},
): Promise<Pick<CronJobRow, "id" | "name" | "last_status">[]> {
  const failed = read
    .selectFrom("cron_jobs")
    .select(["id", "name", "last_status"])
    .where("state", "in", states)
    .where("last_status", "!=", "ok")
    .orderBy("updated_at", "desc")
    .orderBy("id")
    .limit(limit);
  return (owner === undefined ? failed : failed.where("owner", "=", owner)).execute();
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

export interface OccurrenceFilter extends OwnerFilter {
  readonly jobId?: string | undefined;
  readonly statuses?: readonly string[] | undefined;
  readonly causes?: readonly string[] | undefined;
  readonly timings?: readonly string[] | undefined;
  readonly deliveryStatuses?: readonly string[] | undefined;
  /** Scheduled at this time or later. */
  readonly fromMs?: number | undefined;
  /** Scheduled before this time. */
  readonly toMs?: number | undefined;
  /** Id of the last occurrence of the previous page. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Returns a page of occurrences, newest first. */
export function listOccurrences(
  { read, dialect }: Store,
  filter: OccurrenceFilter,
): Promise<OccurrenceRow[]> {
  const { owner, jobId, statuses, causes, timings, deliveryStatuses, fromMs, toMs, before, limit } = filter;
  let query = read.selectFrom("occurrences").selectAll();
  if (owner !== undefined) query = query.where("owner", "=", owner);
  if (jobId !== undefined) query = query.where("job_id", "=", jobId);
  if (statuses !== undefined) query = query.where("status", "in", statuses);
  if (causes !== undefined) query = query.where("cause", "in", causes);
  if (timings !== undefined) query = query.where("timing", "in", timings);
  if (deliveryStatuses !== undefined) query = query.where("delivery_status", "in", deliveryStatuses);
  // SQLite would read the whole window by the index of times, and sort it.
  const scheduled = sql<number>`${sql.raw(dialect === "sqlite" ? "+scheduled_at" : "scheduled_at")}`;
  // An instant is claimed after it was due, and ids are made by the claim.
  if (fromMs !== undefined)
    query = query.where(scheduled, ">=", fromMs).where("id", ">=", firstIdAt("occ", Math.max(0, fromMs)));
  if (toMs !== undefined) query = query.where(scheduled, "<", toMs);
  if (before !== undefined) query = query.where("id", "<", before);
  return query.orderBy("id", "desc").limit(limit).execute();
}

export interface OccurrenceWindow extends OwnerFilter {
  readonly jobId?: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
  readonly limit: number;
}

/** Returns the occurrences in a window of time, earliest first. Missed ones count up to their last instant. */
export async function listOccurrencesIn(
  { read }: Store,
  { owner, jobId, fromMs, toMs, limit }: OccurrenceWindow,
): Promise<readonly OccurrenceRow[]> {
  let query = read.selectFrom("occurrences").selectAll().where("scheduled_at", "<", toMs).limit(limit);
  if (owner !== undefined) query = query.where("owner", "=", owner);
  if (jobId !== undefined) query = query.where("job_id", "=", jobId);
  const [reaching, inside] = await Promise.all([
    query
      .where("status", "=", "missed")
      // They were claimed after their last instant.
      .where("id", ">=", firstIdAt("occ", Math.max(0, fromMs)))
      .where("scheduled_at", "<", fromMs)
      .where("covers_until", ">=", fromMs)
      .orderBy("id")
      .execute(),
    query.where("scheduled_at", ">=", fromMs).orderBy("scheduled_at").orderBy("id").execute(),
  ]);
  return [...reaching.toSorted((a, b) => a.scheduled_at - b.scheduled_at), ...inside].slice(0, limit);
}

export async function countOpenOccurrences({ read }: Store, { owner }: OwnerFilter = {}): Promise<number> {
  const all = read.selectFrom("occurrences").where("ended_at", "is", null);
  const open = owner === undefined ? all : all.where("owner", "=", owner);
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

/** Returns the occurrences with these ids, in the order of their ids. */
export async function listOccurrencesById(
  { read }: Store,
  ids: readonly string[],
): Promise<readonly OccurrenceRow[]> {
  const rows: OccurrenceRow[] = [];
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    const some = ids.slice(start, start + MAX_IDS);
    rows.push(...(await read.selectFrom("occurrences").selectAll().where("id", "in", some).execute()));
  }
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** Returns how many messages of these occurrences are due or being sent; those that wait for a retry do not count. */
export async function countUnsentMessages(
  { read }: Store,
  ids: readonly string[],
  nowMs: number,
): Promise<number> {
  let count = 0;
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    const row = await read
      .selectFrom("outbox")
      .select(({ fn }) => fn.countAll().as("count"))
      .where("ref", "in", ids.slice(start, start + MAX_IDS))
      .where("status", "in", ["due", "leased"])
      .where((is) => is.or([is("status", "=", "leased"), is("available_at", "<=", nowMs)]))
      .executeTakeFirst();
    count += Number(row?.count ?? 0);
  }
  return count;
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

export type SentMessage = Pick<OutboxRow, "id" | "ref" | "target" | "status" | "last_error">;

/** Returns the outbox messages of these occurrences, oldest first. */
export async function listMessagesOf({ read }: Store, refs: readonly string[]): Promise<SentMessage[]> {
  if (refs.length === 0) return [];
  const sent = read.selectFrom("outbox").select(["id", "ref", "target", "status", "last_error"]);
  return sent.where("ref", "in", refs).orderBy("id").execute();
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
