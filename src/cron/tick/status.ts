/** The status of the scheduler, as any process can read it. Read-only; reads at most a few rows per job. */
import { parseOwner, type OwnerProcess } from "../../store/leases.ts";
import type { Store } from "../../store/store.ts";
import type { CronTickerRow } from "../../store/schema/tables.ts";
import { JOB_STATES, readDefinition, type JobState, type LastStatus } from "../job/job.ts";
import {
  countJobsByStatus,
  countJobsDueBefore,
  countOpenOccurrences,
  listErrorDefinitions,
  listFailedJobs,
  listTickers,
  listUpcomingJobs,
  type JobCount,
  type OwnerFilter,
  type UpcomingJobRow,
} from "../queries.ts";

/** A process with a scheduler. Times in milliseconds since the epoch. */
export interface TickerStatus extends Partial<OwnerProcess> {
  readonly owner: string;
  readonly startedAtMs: number;
  readonly tickedAtMs: number;
  readonly succeededAtMs: number | undefined;
  readonly lastError: string | undefined;
  /** How many jobs a clock that was ahead had delayed, and when the scheduler found them. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** gone: the process is known to be dead. stalled: it sends no heartbeat. */
  readonly state: "ticking" | "stalled" | "gone";
}

/** A job in a report. */
export interface NamedJob {
  readonly id: string;
  readonly name: string;
}

export interface DueJob extends NamedJob {
  readonly dueAtMs: number;
}

export interface CronStatus {
  /** ticking: at least one scheduler runs. stalled: no scheduler has ticked for a while. none: no scheduler is known. */
  readonly state: "ticking" | "stalled" | "none";
  readonly tickers: readonly TickerStatus[];
  /** The last known tick: a scheduler that shuts down normally deletes its row. */
  readonly lastTickAtMs: number | undefined;
  readonly jobs: Readonly<Record<JobState, number>> & { readonly all: number };
  /** Due rows that cannot be read. */
  readonly broken: number;
  /** Jobs that have been due for more than a minute, those due for the longest time first. */
  readonly late: {
    readonly count: number;
    readonly oldestDueAtMs: number | undefined;
    readonly named: readonly DueJob[];
  };
  /** The job that is due next, or has been due for the longest time. */
  readonly next: DueJob | undefined;
  /** Jobs that a clock that was ahead had delayed, found within the last day. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** Occurrences that are running. */
  readonly open: number;
  /** Jobs whose last run or its delivery failed, latest change first. */
  readonly failures: {
    readonly count: number;
    readonly named: readonly (NamedJob & { readonly lastStatus: LastStatus })[];
  };
}

/** A scheduler without a successful tick for this long is stalled: three of its longest rounds, and some margin. */
const STALE_MS = 200_000;
/** A job that is due for this long is late. */
const LATE_JOB_MS = 60_000;
/** How long a correction of the clock is reported. */
const CORRECTED_MS = 86_400_000;
const MAX_NAMED = 5;
const MAX_TICKERS = 100;
/** Jobs in error whose definitions are checked. */
const MAX_CHECKED = 1_000;

/** Reads the schedulers, and the jobs of an owner or of all. ServiceError `state_store_unavailable`. */
export async function readCronStatus(
  store: Store,
  { nowMs, owner }: { readonly nowMs: number } & OwnerFilter,
): Promise<CronStatus> {
  const lateBeforeMs = nowMs - LATE_JOB_MS;
  const [tickers, counts, broken, upcoming, lateCount, open, failed] = await Promise.all([
    readTickers(store, nowMs),
    countJobsByStatus(store, { owner }),
    countBroken(store, { owner }),
    listUpcomingJobs(store, MAX_NAMED, { owner }),
    countJobsDueBefore(store, lateBeforeMs, { owner }),
    countOpenOccurrences(store, { owner }),
    listFailedJobs(store, JOB_STATES, MAX_NAMED, { owner }),
  ]);
  const due = upcoming.map(toDueJob);
  const late = due.filter(({ dueAtMs }) => dueAtMs < lateBeforeMs);
  const ticks = tickers.map(({ tickedAtMs }) => tickedAtMs);
  return {
    state: stateOf(tickers),
    tickers,
    lastTickAtMs: ticks.length === 0 ? undefined : Math.max(...ticks),
    jobs: byState(counts),
    broken: broken + sum(counts.filter(({ state }) => !isKnown(state))),
    late: { count: lateCount, oldestDueAtMs: late[0]?.dueAtMs, named: late },
    next: due[0],
    corrected: correctedOf(tickers, nowMs),
    open,
    failures: {
      count: sum(counts.filter(({ lastStatus }) => lastStatus !== null && lastStatus !== "ok")),
      named: failed.map(({ id, name, last_status: status }) => ({
        id,
        name,
        lastStatus: status as LastStatus,
      })),
    },
  };
}

/** Whether a scheduler runs in any process. */
export async function isTicking(store: Store, nowMs: number): Promise<boolean> {
  return stateOf(await readTickers(store, nowMs)) === "ticking";
}

/** Returns the newest correction: several schedulers may have found delayed jobs. */
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
  const rows = await listTickers(store, MAX_TICKERS);
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

/** Compares both ways: after the clock was set back, an old heartbeat lies in the future. */
function tickingOf(
  { succeeded_at, started_at }: CronTickerRow,
  nowMs: number,
): Exclude<TickerStatus["state"], "gone"> {
  return Math.abs(nowMs - (succeeded_at ?? started_at)) > STALE_MS ? "stalled" : "ticking";
}

function byState(counts: readonly JobCount[]): CronStatus["jobs"] {
  const of = (state: JobState) => sum(counts.filter((each) => each.state === state));
  const entries = JOB_STATES.map((state) => [state, of(state)] as const);
  return { ...(Object.fromEntries(entries) as Record<JobState, number>), all: sum(counts) };
}

const sum = (counts: readonly JobCount[]): number => counts.reduce((all, { count }) => all + count, 0);

const isKnown = (state: string): boolean => (JOB_STATES as readonly string[]).includes(state);

/** The scheduler sets the rows that it cannot read to the state `error`. */
async function countBroken(store: Store, whose: OwnerFilter): Promise<number> {
  const definitions = await listErrorDefinitions(store, MAX_CHECKED, whose);
  return definitions.filter((definition) => readDefinition(definition) === undefined).length;
}

function toDueJob({ id, name, due_at: dueAt }: UpcomingJobRow): DueJob {
  return { id, name, dueAtMs: dueAt ?? 0 };
}
