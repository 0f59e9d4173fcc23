/** Deletes finished rows after their time, in small transactions. */
import { firstIdAt } from "../base/text.ts";
import type { Clock } from "../base/time.ts";
import { sweepChanges } from "./feed/sweep.ts";
import type { Store } from "./store.ts";
import { rawTx, type Row, type Tx, type Value } from "./tx/tx.ts";

/** How long finished rows are kept, in milliseconds. Absent: forever. */
export interface Retention extends CronRetention {
  /** Ended runs, with their events and stored responses; a transient session goes with its runs. */
  readonly runsMs?: number;
  /** Closed questions, from their answer on: who approved what is known longer than the run. */
  readonly questionsMs?: number;
  /** Events of ended runs, where they are deleted earlier than the runs. */
  readonly eventsMs?: number;
  /** Messages that are not pending: delivered, dead, dropped and unknown. */
  readonly outboxMs?: number;
  /** Ended webhook deliveries. */
  readonly deliveriesMs?: number;
  /** Number of the newest webhook deliveries that are kept, at least one; open ones stay in addition. */
  readonly maxDeliveries?: number;
  /** Rows of the change feed. */
  readonly changesMs?: number;
  /** Number of the newest rows of the change feed that are kept, at least one. */
  readonly maxChanges?: number;
  /** Usage and spending of days that are over. */
  readonly usageMs?: number;
  /** Events kept of one run; a longer run loses its oldest events, even while it is active. */
  readonly maxRunEvents?: number;
}

/** The number of rows that a sweep deleted. */
interface Swept {
  readonly runs: number;
  readonly sessions: number;
  readonly questions: number;
  /** Deleted earlier than their runs. */
  readonly events: number;
  readonly ledger: number;
  readonly outbox: number;
  readonly deliveries: number;
  readonly occurrences: number;
  readonly changes: number;
  readonly usage: number;
  /** Ids of the deleted scheduled jobs: the caller removes their output files. */
  readonly cronJobs: readonly string[];
}

interface SweepOptions {
  readonly retention: Retention;
  /** Most rows a transaction deletes, so that no writer waits long; default 500. */
  readonly batchSize?: number;
  /** Leaves out runs that ended before: an earlier sweep with the same retention handled them. Default 0. */
  readonly sinceMs?: number;
  readonly signal?: AbortSignal;
}

const BATCH_SIZE = 500;

/**
 * Deletes rows older than their retention, in small transactions that let other writers in between. Ledger rows carry
 * their own expiry. Transcripts of saved sessions stay; only their runs and events go. A sweep that the signal or a crash
 * interrupts may leave a run without its first events; the next sweep continues.
 */
export async function sweep(store: Store, options: SweepOptions): Promise<Swept> {
  const { retention, batchSize = BATCH_SIZE, signal, sinceMs = 0 } = options;
  const batches = new Batches(store, { size: batchSize, signal });
  const sweeper = new Sweeper(batches);
  const events = new EventSweeper(batches, sinceMs);
  const cron = new CronSweeper(batches);
  const { eventsMs, maxRunEvents, overJobsMs } = retention;
  await cron.tickers();
  const none = { runs: 0, sessions: 0 };
  return {
    ...(retention.runsMs === undefined ? none : await sweeper.runs(retention.runsMs)),
    questions: retention.questionsMs === undefined ? 0 : await sweeper.questions(retention.questionsMs),
    events:
      (eventsMs === undefined ? 0 : await events.expired(eventsMs)) +
      (maxRunEvents === undefined ? 0 : await events.surplus(maxRunEvents)),
    ledger: await sweeper.ledger(),
    outbox: retention.outboxMs === undefined ? 0 : await sweeper.outbox(retention.outboxMs),
    deliveries: await sweeper.deliveries(retention),
    // Jobs first: the occurrences of a deleted job go as well.
    cronJobs: overJobsMs === undefined ? [] : await cron.overJobs(overJobsMs),
    occurrences: await cron.occurrences(retention),
    changes: await sweepChanges(batches, retention),
    usage: retention.usageMs === undefined ? 0 : await sweeper.usage(retention.usageMs),
  };
}

interface SweepScheduleOptions {
  readonly retention: Retention;
  readonly everyMs: number;
  readonly clock: Clock;
  readonly onProblem: (message: string, error: unknown) => void;
  /** Called with the ids of deleted scheduled jobs. */
  readonly onCronJobsGone?: (ids: readonly string[]) => Promise<void>;
}

/** Sweeps every `everyMs` until the returned function is called, which resolves when the current sweep has ended. */
export function scheduleSweeps(store: Store, options: SweepScheduleOptions): () => Promise<void> {
  const { retention, everyMs, clock, onProblem } = options;
  const stop = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let cancel = () => {};
  let sinceMs = 0;
  const run = async () => {
    const startMs = clock.now();
    try {
      const { cronJobs } = await sweep(store, { retention, signal: stop.signal, sinceMs });
      if (cronJobs.length > 0) await options.onCronJobsGone?.(cronJobs);
      sinceMs = startMs - CLOCK_SKEW_MS;
    } catch (error) {
      onProblem("A sweep of old rows failed; the next one continues.", error);
    }
    schedule();
  };
  const schedule = () => {
    if (!stop.signal.aborted) cancel = clock.after(everyMs, () => (running = run()));
  };
  schedule();
  return async () => {
    stop.abort();
    cancel();
    await running;
  };
}

/** The database's clock may differ from ours. */
const CLOCK_SKEW_MS = 5 * 60_000;

class Sweeper {
  readonly #batches: Batches;

  constructor(batches: Batches) {
    this.#batches = batches;
  }

  /** Deletes the events first: without their run, no later sweep would find them. */
  async runs(ageMs: number): Promise<{ readonly runs: number; readonly sessions: number }> {
    const swept = { runs: 0, sessions: 0 };
    for (;;) {
      const old = await this.#oldRuns(ageMs);
      for (const { id, session_id: sessionId, expendable } of old) {
        await this.#batches.all(DELETE_OF_RUN.events, [id ?? null]);
        await this.#batches.all(DELETE_OF_RUN.openQuestions, [id ?? null]);
        if (expendable === 1) await this.#batches.all(DELETE_OF_SESSION.events, [sessionId ?? null]);
        if (expendable === 1) await this.#batches.all(DELETE_OF_SESSION.messages, [sessionId ?? null]);
        if (this.#batches.isStopped) return swept;
      }
      if (old.length === 0) return swept;
      const gone = await this.#batches.write((tx) => deleteRuns(tx, old));
      swept.runs += gone.runs;
      swept.sessions += gone.sessions;
      if (this.#batches.isStopped) return swept;
    }
  }

  /** Questions of a run that has not ended stay: a recovery after a crash needs them. */
  questions(ageMs: number): Promise<number> {
    return this.#batches.all(DELETE_QUESTIONS, ({ nowMs }) => {
      const beforeMs = Math.max(0, nowMs - ageMs);
      return [firstIdAt("ask", beforeMs), beforeMs];
    });
  }

  ledger(): Promise<number> {
    return this.#batches.all(
      "delete from ledger where (scope, key) in (select scope, key from ledger where expires_at <= ? limit ?)",
      (tx) => [tx.nowMs],
    );
  }

  outbox(ageMs: number): Promise<number> {
    return this.#batches.all(
      "delete from outbox where id in (select id from outbox where done_at is not null and done_at <= ? limit ?)",
      (tx) => [tx.nowMs - ageMs],
    );
  }

  /** Ids sort by time, so the key alone finds the old rows, however many exist. */
  async deliveries({ deliveriesMs, maxDeliveries }: Retention): Promise<number> {
    const before = await this.#batches.write(async (tx) => {
      const byAge = deliveriesMs === undefined ? "" : firstIdAt("dlv", Math.max(0, tx.nowMs - deliveriesMs));
      if (maxDeliveries === undefined) return byAge;
      const [oldestKept] = await rawTx(tx).all(NTH_NEWEST_DELIVERY, [Math.max(1, maxDeliveries) - 1]);
      const byCount = String(oldestKept?.["id"] ?? "");
      return byCount > byAge ? byCount : byAge;
    });
    if (before === "") return 0;
    await this.#batches.all(DELETE_DELIVERY_BODIES, [before]);
    return this.#batches.isStopped ? 0 : this.#batches.all(DELETE_DELIVERIES, [before]);
  }

  async usage(ageMs: number): Promise<number> {
    const before = (tx: Tx) => [new Date(tx.nowMs - ageMs).toISOString().slice(0, 10)];
    return (
      (await this.#batches.all(DELETE_USAGE, before)) +
      (this.#batches.isStopped ? 0 : await this.#batches.all(DELETE_SPENDING, before))
    );
  }

  #oldRuns(ageMs: number): Promise<readonly Row[]> {
    return this.#batches.write((tx) => {
      const endedBefore = tx.nowMs - ageMs;
      return rawTx(tx).all(OLD_RUNS, [endedBefore, endedBefore, Math.min(this.#batches.size, MAX_RUNS)]);
    });
  }
}

const MAX_RUNS = 100;

// Ids sort by time, so the key alone finds the old rows, however many exist.
const DELETE_QUESTIONS = `
  delete from questions where id in (
    select id from questions
    where id < ? and coalesce(answered_at, created_at) < ? and not exists (
      select 1 from runs where runs.id = questions.run_id and runs.ended_at is null
    ) order by id limit ?
  )`;

const DELETE_USAGE = `
  delete from usage_days where (day, owner, key, model, source, kind) in (
    select day, owner, key, model, source, kind from usage_days where day < ? limit ?
  )`;
const DELETE_SPENDING = `
  delete from spending where (owner, day, key) in (
    select owner, day, key from spending where day < ? limit ?
  )`;

// Expendable: the run's session is transient, and all of its runs are old.
const OLD_RUNS = `
  select runs.id, runs.session_id,
    case when sessions.transient = 1 and not exists (
      select 1 from runs as other
      where other.session_id = runs.session_id and (other.ended_at is null or other.ended_at > ?)
    ) then 1 else 0 end as expendable
  from runs left join sessions on sessions.id = runs.session_id
  where runs.ended_at is not null and runs.ended_at <= ?
  order by runs.ended_at limit ?`;

const NTH_NEWEST_DELIVERY = "select id from deliveries order by id desc limit 1 offset ?";
// Bodies first: without its delivery, no later sweep would find a body. A delivery that ends in between keeps both.
const DELETE_DELIVERY_BODIES =
  "delete from delivery_bodies where id in (select delivery_bodies.id from delivery_bodies " +
  "join deliveries on deliveries.id = delivery_bodies.id " +
  "where delivery_bodies.id < ? and deliveries.ended_at is not null order by delivery_bodies.id limit ?)";
const DELETE_DELIVERIES =
  "delete from deliveries where id in " +
  "(select id from deliveries where id < ? and ended_at is not null and not exists " +
  "(select 1 from delivery_bodies where delivery_bodies.id = deliveries.id) order by id limit ?)";

const numberedRows = (table: "events" | "messages", column: "run_id" | "session_id"): string =>
  `delete from ${table} where (session_id, seq) in ` +
  `(select session_id, seq from ${table} where ${column} = ? limit ?)`;

const DELETE_OF_RUN = {
  events: numberedRows("events", "run_id"),
  // Nothing can close them any more.
  openQuestions:
    "delete from questions where id in (select id from questions where run_id = ? and status = 'open' limit ?)",
};
const DELETE_OF_SESSION = {
  events: numberedRows("events", "session_id"),
  messages: numberedRows("messages", "session_id"),
};

async function deleteRuns(tx: Tx, old: readonly Row[]): Promise<{ runs: number; sessions: number }> {
  const raw = rawTx(tx);
  const ids = old.map((row) => row["id"] ?? null);
  const sessionIds = old.map((row) => row["session_id"] ?? null);
  const marks = old.map(() => "?").join(", ");
  await raw.run(`delete from responses where run_id in (${marks})`, ids);
  const runs = await raw.run(`delete from runs where id in (${marks})`, ids);
  // A session that got a run meanwhile stays.
  const unused = "not exists (select 1 from runs where runs.session_id = sessions.id)";
  const sessions = await raw.run(
    `delete from sessions where id in (${marks}) and transient = 1 and queued = 0 and ${unused}`,
    sessionIds,
  );
  return { runs, sessions };
}

/**
 * Deletes events earlier than their runs. Keeps events of stored responses, which are read from them, and events of
 * active runs that a recovery after a crash would need.
 */
class EventSweeper {
  readonly #batches: Batches;
  readonly #sinceMs: number;

  /** An earlier sweep handled runs that ended before `sinceMs`. */
  constructor(batches: Batches, sinceMs: number) {
    this.#batches = batches;
    this.#sinceMs = sinceMs;
  }

  /** Deletes all events of runs that ended long enough ago. */
  expired(ageMs: number): Promise<number> {
    return this.#ended(ageMs, ({ id = null }) => this.#batches.all(EVENTS_OF_RUN, [id]));
  }

  /** Deletes the oldest events of runs that have more than `max`. */
  async surplus(max: number): Promise<number> {
    const open = await this.#batches.write((tx) => rawTx(tx).all(LONG_OPEN_RUNS, [max]));
    let swept = 0;
    for (const run of open) {
      if (this.#batches.isStopped) return swept;
      swept += await this.#trimOpen(run, max);
    }
    const trim = async ({ id = null, last_seq: lastSeq }: Row) =>
      Number(lastSeq) > max ? this.#batches.all(EVENTS_TO, [id, Number(lastSeq) - max]) : 0;
    return swept + (await this.#ended(0, trim));
  }

  /** Recovery needs the events after the last usage event, and every steering event. */
  async #trimOpen({ id = null, last_seq: lastSeq }: Row, max: number): Promise<number> {
    const [saved] = await this.#batches.write((tx) => rawTx(tx).all(LAST_USAGE, [id]));
    const upTo = Math.min(Number(lastSeq) - max, Number(saved?.["run_seq"] ?? 0) - 1);
    return upTo > 0 ? this.#batches.all(EVENTS_TO_BUT_STEERS, [id, upTo]) : 0;
  }

  /** Visits the runs that ended at least `ageMs` ago, page by page. */
  async #ended(ageMs: number, work: (run: Row) => Promise<number>): Promise<number> {
    let swept = 0;
    let [endedAt, id] = [this.#sinceMs - ageMs, ""];
    for (;;) {
      const runs = await this.#batches.write((tx) =>
        rawTx(tx).all(ENDED_RUNS, [tx.nowMs - ageMs, endedAt, id, PAGE]),
      );
      for (const run of runs) {
        if (this.#batches.isStopped) return swept;
        swept += await work(run);
      }
      const last = runs.at(-1);
      if (!last || runs.length < PAGE) return swept;
      [endedAt, id] = [Number(last["ended_at"]), String(last["id"])];
    }
  }
}

const PAGE = 200;

const ENDED_RUNS = `
  select id, ended_at, last_seq from runs
  where ended_at is not null and ended_at <= ? and (ended_at, id) > (?, ?) and kind <> 'response'
  order by ended_at, id limit ?`;

const LONG_OPEN_RUNS = `
  select id, last_seq from runs
  where ended_at is null and last_seq > ? and kind not in ('response', 'chat')`;

const LAST_USAGE =
  "select run_seq from events where run_id = ? and type = 'usage.updated' order by run_seq desc limit 1";

const events = (which: string): string =>
  `delete from events where (session_id, seq) in (select session_id, seq from events where ${which} limit ?)`;
const EVENTS_OF_RUN = events("run_id = ?");
const EVENTS_TO = events("run_id = ? and run_seq <= ?");
const EVENTS_TO_BUT_STEERS = events(
  "run_id = ? and run_seq <= ? and type not in ('run.steer_accepted', 'run.steered')",
);

// Records of the scheduler

interface CronRetention {
  /** Ended occurrences; the newest of each job is kept. */
  readonly occurrencesMs?: number;
  /**
   * Number of the newest occurrences that are kept, at least one; open ones, and the newest of each job, stay in
   * addition.
   */
  readonly maxOccurrences?: number;
  /** Finished jobs, from their last change on. */
  readonly overJobsMs?: number;
}

/** Deletes in small transactions. */
class CronSweeper {
  readonly #batches: Batches;

  constructor(batches: Batches) {
    this.#batches = batches;
  }

  /** Resolves to the number of deleted rows. Ids sort by the time of the claim, so the key alone finds the old ones. */
  async occurrences({ occurrencesMs, maxOccurrences }: CronRetention): Promise<number> {
    const before = await this.#batches.write(async (tx) => {
      const byAge =
        occurrencesMs === undefined ? "" : firstIdAt("occ", Math.max(0, tx.nowMs - occurrencesMs));
      if (maxOccurrences === undefined) return byAge;
      const [oldestKept] = await rawTx(tx).all(NTH_NEWEST_OCCURRENCE, [Math.max(1, maxOccurrences) - 1]);
      const byCount = String(oldestKept?.["id"] ?? "");
      return byCount > byAge ? byCount : byAge;
    });
    return before === "" ? 0 : this.#batches.all(DELETE_OCCURRENCES, [before]);
  }

  /** Resolves to the ids of the deleted jobs: the caller removes their output files. */
  async overJobs(ageMs: number): Promise<readonly string[]> {
    const gone: string[] = [];
    for (;;) {
      const rows = await this.#batches.write(async (tx) => {
        const deleted = await rawTx(tx).all(DELETE_OVER_JOBS, [tx.nowMs - ageMs, this.#batches.size]);
        for (const { id, owner, state, revision } of deleted) {
          const data = { state, revision: Number(revision) };
          tx.record({ type: "job.deleted", ref: String(id), owner: String(owner), data, actor: null });
        }
        return deleted;
      });
      gone.push(...rows.map(({ id }) => String(id)));
      if (rows.length < this.#batches.size || this.#batches.isStopped) return gone;
    }
  }

  /** Deletes processes without a tick for a day; the last one stays, as the record of the last tick. */
  tickers(): Promise<number> {
    return this.#batches.all(DELETE_TICKERS, (tx) => [tx.nowMs - TICKER_MS]);
  }
}

const TICKER_MS = 86_400_000;

const NTH_NEWEST_OCCURRENCE = "select id from occurrences order by id desc limit 1 offset ?";
const DELETE_OCCURRENCES =
  "delete from occurrences where id in (select id from occurrences as old " +
  "where id < ? and ended_at is not null and (" +
  "exists (select 1 from occurrences as newer where newer.job_id = old.job_id and newer.id > old.id) " +
  "or not exists (select 1 from cron_jobs where cron_jobs.id = old.job_id)) order by id limit ?)";
const DELETE_OVER_JOBS =
  "delete from cron_jobs where id in (select id from cron_jobs as done " +
  "where state in ('completed', 'missed') and due_at is null and updated_at <= ? and not exists " +
  "(select 1 from occurrences where occurrences.job_id = done.id and ended_at is null) limit ?) " +
  "and state in ('completed', 'missed') and due_at is null returning id, owner, state, revision";
const DELETE_TICKERS =
  "delete from cron_tickers where owner in (select owner from cron_tickers as silent where ticked_at <= ? and exists " +
  "(select 1 from cron_tickers as newer where newer.ticked_at > silent.ticked_at) limit ?)";

/** Works on many rows in small transactions, which let other writers in between. */
class Batches {
  /** Maximum number of rows that a transaction changes. */
  readonly size: number;
  readonly #store: Store;
  readonly #signal: AbortSignal | undefined;

  constructor(store: Store, options: { readonly size: number; readonly signal: AbortSignal | undefined }) {
    this.#store = store;
    this.size = Math.max(1, options.size);
    this.#signal = options.signal;
  }

  get isStopped(): boolean {
    return this.#signal?.aborted ?? false;
  }

  /** Repeats a statement, whose last value limits its rows, until no row is left; resolves to their number. */
  async all(sql: string, values: readonly Value[] | ((tx: Tx) => readonly Value[])): Promise<number> {
    let count = 0;
    for (;;) {
      const changed = await this.write((tx) => {
        const given = typeof values === "function" ? values(tx) : values;
        return rawTx(tx).run(sql, [...given, this.size]);
      });
      count += changed;
      if (changed < this.size || this.isStopped) return count;
    }
  }

  // Not durable: a later sweep repeats a deletion that a crash undoes.
  write<T>(work: (tx: Tx) => Promise<T> | T): Promise<T> {
    return this.#store.write(work, { durable: false });
  }
}
