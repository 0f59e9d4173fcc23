import type { Clock } from "../../base/time.ts";
import type { Log } from "../../base/observe.ts";
import type { Store } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { CLAIM_MS, claimRound, type Claimed, type ClaimRound } from "./claim.ts";
import { AHEAD_MS, correctAhead } from "./clock-ahead.ts";

import { endOrphans, reclaim, releaseClaims, RECLAIM_BATCH } from "./reclaim.ts";
import {
  endedAmong,
  extendLeases,
  listUpcomingJobs,
  listOccurrencesWithoutRun,
  listOrphans,
  deleteTicker,
  listTickers,
} from "../queries.ts";
import type { PlanOptions } from "../run/result.ts";
import type { CronSettings, CronDeps } from "../deps.ts";
import { waitAtMost } from "../../base/time.ts";
import { redact } from "../../base/observe.ts";
import { fire } from "../run/fire.ts";
import { jitterMs } from "../job/job.ts";

export interface TickerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: Pick<CronSettings, "catchUpMissed" | "maxParallelJobs" | "wrapResponse" | "silentMatch">;
  readonly homes: PlanOptions["homes"];
  /** Runs an occurrence to its end. MUST NOT reject. */
  readonly fire: (claimed: Claimed) => Promise<void>;
  /** Called when another process has ended an occurrence that runs here. */
  readonly onEndedElsewhere?: (occurrenceId: string) => void;
  /** Longest sleep: changes of other processes are seen after it. Default 1 s. */
  readonly pollMs?: number;
}

/** Jobs that one transaction decides. */
const BATCH = 100;
/** Time between two searches for the claims of processes that are gone. */
const RECLAIM_MS = 5_000;
const RENEW_MS = CLAIM_MS / 3;
/** The store's clock may be a little behind ours, and another process may hold the rows. */
const MIN_SLEEP_MS = 10;

/**
 * The scheduler of a process. It sleeps until the next instant, or for `pollMs`, and asks the store for due jobs. Any number
 * of processes may share a store: only one claims an instant. It claims no more than it may run at once.
 */
export class Ticker {
  readonly #options: Required<TickerOptions>;
  readonly #planOptions: PlanOptions;
  readonly #heartbeat: Heartbeat;
  readonly #running = new RunningOccurrences(() => this.#onEnded());
  #cancel = () => {};
  #pass: Promise<unknown> | undefined;
  #isPassWanted = false;
  #isStopped = true;
  /** Ends a tick in progress. */
  #isStopping = false;
  #isFailing = false;
  #reclaimedAtMs: number | undefined;
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  /** How far the store's clock is ahead of ours. */
  #aheadMs = 0;
  #nextDueMs: number | undefined;
  /** The store's time at the last check of the clock. */
  #storeMs: number | undefined;
  #notifyEnded = () => {};

  constructor(options: TickerOptions) {
    this.#options = { pollMs: 1_000, onEndedElsewhere: () => {}, ...options };
    this.#planOptions = { homes: options.homes, settings: options.settings };
    this.#heartbeat = new Heartbeat(options.store);
  }

  /** The number of occurrences that run here. */
  get runningCount(): number {
    return this.#running.size;
  }

  /** Resolves after the first pass. Never rejects. */
  async start(): Promise<void> {
    this.#isStopped = false;
    this.#isStopping = false;
    this.wake();
    await this.#pass;
  }

  /** Starts a pass now. */
  wake(): void {
    if (this.#isStopped) return;
    this.#isPassWanted = true;
    this.#cancel();
    this.#pass ??= this.#passes().finally(() => (this.#pass = undefined));
  }

  /** Stops claiming and releases what has not started. Running occurrences continue: see {@link drain}. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isStopping = true;
    this.#cancel();
    await this.#pass;
    const { store, log } = this.#options;
    await store
      .write((tx) => releaseClaims(tx, store.owner))
      .catch((error: unknown) =>
        log.warn("cannot release the claims of the scheduler; they expire", { error }),
      );
    await this.#heartbeat.end();
  }

  /** Waits for running occurrences, `graceMs` at most. */
  async drain(graceMs: number): Promise<void> {
    await waitAtMost(this.#options.clock, graceMs, this.settled());
  }

  settled(): Promise<void> {
    return this.#running.settled();
  }

  /**
   * Claims and starts everything that is due, or was due until `untilMs`. Resolves to what it started; rejects when the
   * store is unavailable.
   */
  async tick({ untilMs }: { readonly untilMs?: number } = {}): Promise<readonly Claimed[]> {
    const started = [...(await this.#maintainClaims())];
    for (;;) {
      const limit = Math.min(BATCH, this.#free);
      if (limit <= 0 || this.#isStopping) return started;
      const { store, clock } = this.#options;
      const [next] = await listUpcomingJobs(store, 1);
      this.#nextDueMs = next?.due_at ?? undefined;
      const lastMs = Math.min(clock.now() + this.#aheadMs, untilMs ?? Number.POSITIVE_INFINITY);
      if (this.#nextDueMs === undefined || this.#nextDueMs > lastMs) return started;
      const { claimed, missed, decided, nowMs } = await this.#claim(limit, untilMs);
      this.#aheadMs = nowMs - clock.now();
      for (const each of missed) this.#warnOfMissed(each);
      for (const each of claimed) this.#start(each);
      started.push(...claimed);
      if (decided === 0) return started;
      await this.#renewInTime();
    }
  }

  /**
   * Runs what is due now, and nothing that comes due meanwhile. Resolves to the ids of its occurrences when they have ended.
   * After `signal` aborts it claims nothing more and waits for those that run.
   */
  async once({ signal }: { readonly signal?: AbortSignal } = {}): Promise<readonly string[]> {
    const { clock } = this.#options;
    await this.#renew(clock.now());
    const untilMs = clock.now() + this.#aheadMs;
    const ids: string[] = [];
    for (;;) {
      const started = signal?.aborted === true ? [] : await this.tick({ untilMs });
      ids.push(...started.map(({ occurrence }) => occurrence.id));
      await this.#heartbeat.beat(clock.now());
      if (this.#running.size === 0) {
        if (started.length === 0) return ids;
        continue; // what ended at once leaves a place to a job that is due
      }
      const ended = new Promise<void>((resolve) => (this.#notifyEnded = resolve));
      await waitAtMost(clock, RENEW_MS, ended);
      if (signal?.aborted === true) await this.#renewInTime();
    }
  }

  /** How many more occurrences may run here. */
  get #free(): number {
    return this.#options.settings.maxParallelJobs - this.#running.size;
  }

  async #passes(): Promise<void> {
    while (this.#isPassWanted && !this.#isStopped) {
      this.#isPassWanted = false;
      await this.#passOnce();
    }
    if (!this.#isStopped) this.#sleep();
  }

  async #passOnce(): Promise<void> {
    const { clock, log } = this.#options;
    try {
      await this.tick();
      await this.#heartbeat.beat(clock.now());
      if (this.#isFailing) log.info("the scheduler reads its jobs again");
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing)
        log.error("the scheduler cannot read its jobs; trying again every second", { error });
      this.#isFailing = true;
      this.#nextDueMs = undefined;
      await this.#heartbeat.failed(clock.now(), error).catch(() => {});
    }
  }

  #sleep(): void {
    const { clock, pollMs } = this.#options;
    const untilMs = this.#free <= 0 ? undefined : this.#nextDueMs;
    const waitMs = untilMs === undefined ? pollMs : untilMs - clock.now() - this.#aheadMs;
    this.#cancel = clock.after(Math.min(pollMs, Math.max(MIN_SLEEP_MS, waitMs)), () => this.wake());
  }

  #claim(limit: number, untilMs: number | undefined): Promise<ClaimRound> {
    const { store, settings, log } = this.#options;
    const until = untilMs === undefined ? {} : { untilMs };
    return claimRound({ store, settings, planOptions: this.#planOptions, limit, ...until }, log);
  }

  #start(claimed: Claimed): void {
    this.#running.add(claimed.occurrence.id, this.#options.fire(claimed));
  }

  #onEnded(): void {
    this.#notifyEnded();
    // Below the limit everything due has been claimed already.
    if (this.#free === 1) this.wake();
  }

  #warnOfMissed({ job_id, job_name, scheduled_at, covers_until, covers_count, reason }: OccurrenceRow): void {
    this.#options.log.warn("a job was not run at its time", {
      job: job_id,
      name: job_name,
      from: new Date(scheduled_at).toISOString(),
      until: new Date(covers_until ?? scheduled_at).toISOString(),
      count: covers_count,
      reason,
    });
  }

  /** Renews the claims of this process, and takes over those of processes that are gone. */
  async #maintainClaims(): Promise<readonly Claimed[]> {
    const { store, clock, log } = this.#options;
    await this.#renewInTime();
    const nowMs = clock.now();
    const sinceMs = this.#reclaimedAtMs === undefined ? RECLAIM_MS : Math.abs(nowMs - this.#reclaimedAtMs);
    if (sinceMs < RECLAIM_MS) return [];
    this.#reclaimedAtMs = nowMs;
    const withoutRun = await listOccurrencesWithoutRun(store, RECLAIM_BATCH);
    const open = withoutRun.filter(({ id }) => !this.#running.has(id));
    if (open.length === 0) return [];
    const reclaimed = await reclaim(store, open, {
      log,
      planOptions: this.#planOptions,
      limit: this.#free,
      // After the machine slept, living processes have not renewed their claims yet.
      onlyDead: sinceMs > CLAIM_MS,
    });
    for (const each of reclaimed) this.#start(each);
    return reclaimed;
  }

  async #renewInTime(): Promise<void> {
    const nowMs = this.#options.clock.now();
    if (Math.abs(nowMs - this.#renewedAtMs) >= RENEW_MS) await this.#renew(nowMs);
  }

  async #renew(nowMs: number): Promise<void> {
    const { store, clock, log, onEndedElsewhere } = this.#options;
    const { ids } = this.#running;
    this.#aheadMs = await store.write(
      async (tx) => {
        await extendLeases(tx, { owner: store.owner, ids, untilMs: tx.nowMs + CLAIM_MS });
        return tx.nowMs - clock.now();
      },
      { durable: false },
    );
    await this.#correctAhead(clock.now() + this.#aheadMs);
    this.#renewedAtMs = nowMs;
    const orphans = await listOrphans(store, RECLAIM_BATCH);
    if (orphans.length > 0) await endOrphans(store, orphans, { log, planOptions: this.#planOptions });
    for (const id of await endedAmong(store, ids)) {
      onEndedElsewhere(id);
      this.#running.end(id);
    }
  }

  /** At the start, and when the clock was set back, corrects the jobs that a clock that was ahead had delayed. */
  async #correctAhead(storeMs: number): Promise<void> {
    const { store, log, clock } = this.#options;
    if (this.#storeMs === undefined || storeMs < this.#storeMs - AHEAD_MS) {
      const count = await correctAhead(store, log);
      if (count > 0) await this.#heartbeat.corrected(clock.now(), count);
    }
    this.#storeMs = storeMs;
  }
}

/** The occurrences that run in this process. */
class RunningOccurrences {
  readonly #entries = new Map<string, PromiseWithResolvers<void>>();
  readonly #onEnded: () => void;

  constructor(onEnded: () => void) {
    this.#onEnded = onEnded;
  }

  get size(): number {
    return this.#entries.size;
  }

  get ids(): readonly string[] {
    return [...this.#entries.keys()];
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  add(id: string, work: Promise<void>): void {
    this.#entries.set(id, Promise.withResolvers<void>());
    const end = () => this.end(id);
    work.then(end, end);
  }

  /** Removes an occurrence, even while its work continues: another process has ended it. */
  end(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#entries.delete(id);
    entry.resolve();
    this.#onEnded();
  }

  /** Resolves when every occurrence that runs now has ended. */
  async settled(): Promise<void> {
    await Promise.all(Array.from(this.#entries.values(), ({ promise }) => promise));
  }
}

/** The shortest time between two heartbeats, or two reports of failure. */
const BEAT_MS = 20_000;
/** Rows of processes on other machines, which cannot be checked, are deleted after it. */
const FORGET_MS = 7 * 24 * 3_600_000;
const MAX_TICKERS = 10_000;

/** Shows other processes that a scheduler is alive, with a row of its own. */
export class Heartbeat {
  readonly #store: Store;
  #beatMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Records a successful tick. */
  async beat(nowMs: number): Promise<void> {
    if (!this.#isFailing && !this.#isTime(nowMs)) return;
    const isFirst = this.#beatMs === Number.NEGATIVE_INFINITY;
    await this.#put({ ticked_at: nowMs, succeeded_at: nowMs, last_error: null });
    this.#isFailing = false;
    this.#beatMs = nowMs;
    if (isFirst) await this.#deleteGone(nowMs);
  }

  /** Records a failed tick. Rejects when the store cannot be written. */
  async failed(nowMs: number, error: unknown): Promise<void> {
    if (this.#isFailing && !this.#isTime(nowMs)) return;
    this.#isFailing = true;
    this.#beatMs = nowMs;
    const text = redact(error instanceof Error ? error.message : String(error));
    await this.#put({ ticked_at: nowMs, last_error: text.slice(0, 500) });
  }

  /** Records how many jobs a clock that was ahead had delayed. */
  async corrected(nowMs: number, jobs: number): Promise<void> {
    await this.#put({ ticked_at: nowMs, last_error: null, corrected_at: nowMs, corrected_jobs: jobs });
  }

  /** Deletes the row: this scheduler stops. */
  async end(): Promise<void> {
    const { owner } = this.#store;
    this.#beatMs = Number.NEGATIVE_INFINITY;
    await this.#store.write((tx) => deleteTicker(tx, owner)).catch(() => {});
  }

  #isTime(nowMs: number): boolean {
    return Math.abs(nowMs - this.#beatMs) >= BEAT_MS;
  }

  async #deleteGone(nowMs: number): Promise<void> {
    const rows = await listTickers(this.#store, MAX_TICKERS);
    const gone = rows.filter(
      ({ owner, ticked_at: at }) => at < nowMs - FORGET_MS || this.#store.ownerIsDead(owner),
    );
    if (gone.length === 0) return;
    await this.#store.write(async (tx) => {
      for (const { owner } of gone) await deleteTicker(tx, owner);
    });
  }

  async #put(columns: {
    readonly ticked_at: number;
    readonly succeeded_at?: number;
    readonly last_error: string | null;
    readonly corrected_at?: number;
    readonly corrected_jobs?: number;
  }): Promise<void> {
    const { owner } = this.#store;
    await this.#store.write(
      async (tx) => {
        if ((await tx.update("cron_tickers", { owner }, columns)) === 1) return;
        const never = { succeeded_at: null, corrected_at: null, corrected_jobs: null };
        const row = { owner, started_at: columns.ticked_at, ...never, ...columns };
        await tx.insert("cron_tickers", [row]);
      },
      { durable: false },
    );
  }
}

/** Returns a ticker that runs what it claims with `deps`. */
export function createScheduler(deps: CronDeps): Ticker {
  const { store, clock, log, settings, homes, ends } = deps;
  return new Ticker({
    store,
    clock,
    log,
    settings,
    homes,
    fire: meterFire((claimed) => fire(deps, claimed), deps),
    onEndedElsewhere: (occurrenceId) => ends.resolve(occurrenceId),
  });
}

/** Returns `fire` with its starts and ends counted. Never rejects when `fire` does not. */
function meterFire(
  fire: (claimed: Claimed) => Promise<void>,
  { metrics, store, clock }: Pick<CronDeps, "metrics" | "store" | "clock">,
): (claimed: Claimed) => Promise<void> {
  if (!metrics) return fire;
  return async (claimed) => {
    const { occurrence, job } = claimed;
    const jitter = occurrence.cause === "schedule" ? jitterMs(job, occurrence.scheduled_at) : 0;
    metrics.began(Math.max(0, clock.now() - occurrence.scheduled_at - jitter) / 1000);
    await fire(claimed);
    // When the database cannot say, another process ends the occurrence and counts it.
    const ended = await store.find("occurrences", { id: occurrence.id }).catch(() => undefined);
    if (ended && ended.ended_at !== null) metrics.ended(ended.status);
  };
}
