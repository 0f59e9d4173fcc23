/** How the scheduler stands, as any process can see it. Reads only, and never more than a few rows of a job. */
import { parseOwner, type OwnerProcess } from "../../store/leases/owner.ts";
import type { Store } from "../../store/store.ts";
import type { CronJobRow, CronTickerRow } from "../../store/schema/tables.ts";
import { JOB_STATES, readDefinition, type JobState, type LastStatus } from "../job/job.ts";

/** A process that looks for due jobs. Times in milliseconds since the epoch. */
export interface TickerStatus extends Partial<OwnerProcess> {
  readonly owner: string;
  readonly startedAtMs: number;
  readonly tickedAtMs: number;
  readonly succeededAtMs: number | undefined;
  readonly lastError: string | undefined;
  /** Jobs that it found put off by a clock ahead, and when it last did. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** gone: its process is known to be; others only say nothing any more. */
  readonly state: "ticking" | "stalled" | "gone";
}

/** A job that is named in a report. */
export interface NamedJob {
  readonly id: string;
  readonly name: string;
}

export interface DueJob extends NamedJob {
  readonly dueAtMs: number;
}

export interface CronStatus {
  /** ticking: at least one process looks for jobs. stalled: those that did have not for a while. none: there is none. */
  readonly state: "ticking" | "stalled" | "none";
  readonly tickers: readonly TickerStatus[];
  /** When jobs were last looked at, as far as is known: processes that stop in order leave no trace. */
  readonly lastTickAtMs: number | undefined;
  readonly jobs: Readonly<Record<JobState, number>> & { readonly all: number };
  /** Rows that cannot be read, of those that came due. */
  readonly broken: number;
  /** Jobs whose time has passed by more than a minute, those that are latest first. */
  readonly late: {
    readonly count: number;
    readonly oldestDueAtMs: number | undefined;
    readonly named: readonly DueJob[];
  };
  /** What comes due next, or is due the longest. */
  readonly next: DueJob | undefined;
  /** Jobs that a clock ahead had put off, found within the last day; undefined: none. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** Occurrences at work. */
  readonly open: number;
  /** Jobs whose last run, or its delivery, did not end well, those of late first. */
  readonly failures: {
    readonly count: number;
    readonly named: readonly (NamedJob & { readonly lastStatus: LastStatus })[];
  };
}

/** Without success for so long, a scheduler counts as stalled: three of its longest rounds, and some patience. */
export const STALE_MS = 200_000;
/** A job that came due so long ago is late. */
export const LATE_JOB_MS = 60_000;
/** How long it is reported that a clock had been ahead. */
const CORRECTED_MS = 86_400_000;
const MAX_NAMED = 5;
const MAX_TICKERS = 100;
/** Jobs in error that are looked into. */
const MAX_PROBED = 1_000;

/** ServiceError `state_store_unavailable`. */
export async function readCronStatus(
  store: Store,
  { nowMs }: { readonly nowMs: number },
): Promise<CronStatus> {
  const [tickers, counts, broken, late, next, open, failures] = await Promise.all([
    readTickers(store, nowMs),
    countJobs(store),
    countBroken(store),
    readLate(store, nowMs - LATE_JOB_MS),
    readNext(store),
    countOpen(store),
    readFailures(store),
  ]);
  const failed = counts.filter(({ lastStatus }) => lastStatus !== null && lastStatus !== "ok");
  const ticks = tickers.map(({ tickedAtMs }) => tickedAtMs);
  return {
    state: stateOf(tickers),
    tickers,
    lastTickAtMs: ticks.length === 0 ? undefined : Math.max(...ticks),
    jobs: byState(counts),
    broken: broken + sum(counts.filter(({ state }) => !isKnown(state))),
    late,
    next,
    corrected: correctedOf(tickers, nowMs),
    open,
    failures: { count: sum(failed), named: failures },
  };
}

/** Whether a process looks for due jobs, as {@link readCronStatus} tells it. */
export async function isTicking(store: Store, nowMs: number): Promise<boolean> {
  return stateOf(await readTickers(store, nowMs)) === "ticking";
}

/** The newest: several schedulers may have found some. */
function correctedOf(tickers: readonly TickerStatus[], nowMs: number): CronStatus["corrected"] {
  const found = tickers.flatMap(({ corrected }) => corrected ?? []);
  const recent = found.filter(({ atMs }) => Math.abs(nowMs - atMs) < CORRECTED_MS);
  return recent.toSorted((one, other) => other.atMs - one.atMs)[0];
}

function stateOf(tickers: readonly TickerStatus[]): CronStatus["state"] {
  const living = tickers.filter(({ state }) => state !== "gone");
  if (living.length === 0) return "none";
  return living.some(({ state }) => state === "ticking") ? "ticking" : "stalled";
}

async function readTickers(store: Store, nowMs: number): Promise<readonly TickerStatus[]> {
  const rows = await store.read
    .selectFrom("cron_tickers")
    .selectAll()
    .orderBy("ticked_at", "desc")
    .limit(MAX_TICKERS)
    .execute();
  return rows.map((row) => ({
    owner: row.owner,
    ...parseOwner(row.owner),
    startedAtMs: row.started_at,
    tickedAtMs: row.ticked_at,
    succeededAtMs: row.succeeded_at ?? undefined,
    lastError: row.last_error ?? undefined,
    corrected:
      row.corrected_at === null ? undefined : { atMs: row.corrected_at, count: row.corrected_jobs ?? 0 },
    state: store.ownerIsDead(row.owner) ? "gone" : tickingOf(row, nowMs),
  }));
}

/** Both ways: after the clock was set back, an old sign of life lies ahead. */
function tickingOf(
  { succeeded_at, started_at }: CronTickerRow,
  nowMs: number,
): Exclude<TickerStatus["state"], "gone"> {
  return Math.abs(nowMs - (succeeded_at ?? started_at)) > STALE_MS ? "stalled" : "ticking";
}

interface Counted {
  readonly state: string;
  readonly lastStatus: string | null;
  readonly count: number;
}

/** Over an index that has no more than this. */
async function countJobs(store: Store): Promise<readonly Counted[]> {
  const rows = await store.read
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

function byState(counts: readonly Counted[]): CronStatus["jobs"] {
  const of = (state: JobState) => sum(counts.filter((each) => each.state === state));
  const entries = JOB_STATES.map((state) => [state, of(state)] as const);
  return { ...(Object.fromEntries(entries) as Record<JobState, number>), all: sum(counts) };
}

const sum = (counts: readonly Counted[]): number => counts.reduce((all, { count }) => all + count, 0);

const isKnown = (state: string): boolean => (JOB_STATES as readonly string[]).includes(state);

/** Whoever comes upon a broken row takes it out of the schedule, as an error. */
async function countBroken(store: Store): Promise<number> {
  const rows = await store.read
    .selectFrom("cron_jobs")
    .select("definition")
    .where("state", "=", "error")
    .limit(MAX_PROBED)
    .execute();
  return rows.filter(({ definition }) => readDefinition(definition) === undefined).length;
}

async function readLate(store: Store, beforeMs: number): Promise<CronStatus["late"]> {
  const late = store.read
    .selectFrom("cron_jobs")
    .where("due_at", "is not", null)
    .where("due_at", "<", beforeMs);
  const [counted, named] = await Promise.all([
    late.select(({ fn }) => fn.countAll().as("count")).executeTakeFirst(),
    late.select(["id", "name", "due_at"]).orderBy("due_at").orderBy("id").limit(MAX_NAMED).execute(),
  ]);
  return {
    count: Number(counted?.count ?? 0),
    oldestDueAtMs: named[0]?.due_at ?? undefined,
    named: named.map(toDueJob),
  };
}

async function readNext(store: Store): Promise<DueJob | undefined> {
  const rows = await store.read
    .selectFrom("cron_jobs")
    .select(["id", "name", "due_at"])
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .orderBy("id")
    .limit(1)
    .execute();
  return rows.map(toDueJob)[0];
}

function toDueJob({ id, name, due_at }: Pick<CronJobRow, "id" | "name" | "due_at">): DueJob {
  return { id, name, dueAtMs: due_at ?? 0 };
}

async function countOpen(store: Store): Promise<number> {
  const row = await store.read
    .selectFrom("occurrences")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("ended_at", "is", null)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

async function readFailures(store: Store): Promise<CronStatus["failures"]["named"]> {
  const rows = await store.read
    .selectFrom("cron_jobs")
    .select(["id", "name", "last_status"])
    .where("state", "in", [...JOB_STATES])
    .where("last_status", "!=", "ok")
    .orderBy("updated_at", "desc")
    .orderBy("id")
    .limit(MAX_NAMED)
    .execute();
  return rows.map(({ id, name, last_status }) => ({ id, name, lastStatus: last_status as LastStatus }));
}
