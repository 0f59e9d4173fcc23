import { waitAtMost } from "../../base/deadline.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import type { Store } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { AtWork } from "./at-work.ts";
import type { Claimed, ClaimRound } from "./claim.ts";
import { claimRound } from "./claim-round.ts";
import { AHEAD_MS, correctAhead } from "./clock-ahead.ts";
import { Heartbeat } from "./heartbeat.ts";
import { CLAIM_MS } from "./new-occurrence.ts";
import type { Telling } from "../run/plan.ts";
import type { CronSettings } from "../settings.ts";
import { endedOf, endOrphans, releaseClaims, renewClaims, reclaim } from "./reclaim.ts";

export interface TickerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: Pick<CronSettings, "catchUpMissed" | "maxParallelJobs" | "wrapResponse" | "silentMatch">;
  readonly homes: Telling["homes"];
  /** Runs an occurrence to its end. MUST NOT reject. */
  readonly fire: (claimed: Claimed) => Promise<void>;
  /** Tells `fire` of the end of an occurrence that another process ended. */
  readonly told?: (occurrenceId: string) => void;
  /** Longest sleep: other processes' changes are seen after it. Default 1 s. */
  readonly pollMs?: number;
}

/** Jobs that one transaction decides about. */
const BATCH = 100;
/** How often it looks for what gone processes left. */
const LOOK_MS = 5_000;
const RENEW_MS = CLAIM_MS / 3;
/** A store's clock may be a little behind ours, and rows may be in another process's hands. */
const MIN_SLEEP_MS = 10;

/**
 * Looks for due jobs, one timer a process: it sleeps to the next instant, or for `pollMs`, and asks the store. Any number
 * of processes may do so; of one instant one gets the claim. It takes no more than it has room for.
 */
export class Ticker {
  readonly #options: Required<TickerOptions>;
  readonly #heartbeat: Heartbeat;
  readonly #atWork = new AtWork(() => this.#freed());
  #cancel = () => {};
  #pass: Promise<unknown> | undefined;
  #isWanted = false;
  #isStopped = true;
  /** A look in progress is to end. */
  #isStopping = false;
  #isFailing = false;
  #lookedAtMs: number | undefined;
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  /** How far the store's clock is ahead of ours. */
  #aheadMs = 0;
  #nextDueMs: number | undefined;
  /** The store's time when it was last looked at. */
  #seenMs: number | undefined;
  #tellFreed = () => {};

  constructor(options: TickerOptions) {
    this.#options = { pollMs: 1_000, told: () => {}, ...options };
    this.#heartbeat = new Heartbeat(options.store);
  }

  /** Occurrences at work here. */
  get atWork(): number {
    return this.#atWork.size;
  }

  /** Resolves after the first pass. Never rejects. */
  async start(): Promise<void> {
    this.#isStopped = false;
    this.#isStopping = false;
    this.wake();
    await this.#pass;
  }

  /** Looks at the jobs now. */
  wake(): void {
    if (this.#isStopped) return;
    this.#isWanted = true;
    this.#cancel();
    this.#pass ??= this.#passes().finally(() => (this.#pass = undefined));
  }

  /** Claims nothing more, and leaves to others what has not begun. The rest goes on: see {@link drain}. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isStopping = true;
    this.#cancel();
    await this.#pass;
    const { store, log } = this.#options;
    await store
      .write((tx) => releaseClaims(tx, store.owner))
      .catch((error: unknown) =>
        log.warn("the claims of the scheduler could not be let go; they run out", { error }),
      );
    await this.#heartbeat.end();
  }

  /** Waits for what is at work, `graceMs` at most. */
  async drain(graceMs: number): Promise<void> {
    await waitAtMost(this.#options.clock, graceMs, this.settled());
  }

  settled(): Promise<void> {
    return this.#atWork.settled();
  }

  /**
   * One pass over all that is due, or was until `untilMs`. Resolves to what began here; rejects when the store cannot be
   * asked.
   */
  async tick({ untilMs }: { readonly untilMs?: number } = {}): Promise<readonly Claimed[]> {
    const begun = [...(await this.#lookAfterClaims())];
    for (;;) {
      const limit = Math.min(BATCH, this.#deps);
      if (limit <= 0 || this.#isStopping) return begun;
      const { store, clock } = this.#options;
      this.#nextDueMs = await nextDueMs(store);
      const lastMs = Math.min(clock.now() + this.#aheadMs, untilMs ?? Number.POSITIVE_INFINITY);
      if (this.#nextDueMs === undefined || this.#nextDueMs > lastMs) return begun;
      const { claimed, missed, looked, nowMs } = await this.#claim(limit, untilMs);
      this.#aheadMs = nowMs - clock.now();
      for (const each of missed) this.#tellMissed(each);
      for (const each of claimed) this.#begin(each);
      begun.push(...claimed);
      if (looked === 0) return begun;
      await this.#renewInTime();
    }
  }

  /**
   * Runs what is due now and nothing that comes due meanwhile, for a process that does nothing else. Resolves to the ids of
   * its occurrences once they have ended; when `signal` aborts, it takes no more, and waits for those that began.
   */
  async once({ signal }: { readonly signal?: AbortSignal } = {}): Promise<readonly string[]> {
    const { clock } = this.#options;
    await this.#renew(clock.now());
    const untilMs = clock.now() + this.#aheadMs;
    const ids: string[] = [];
    for (;;) {
      const begun = signal?.aborted === true ? [] : await this.tick({ untilMs });
      ids.push(...begun.map(({ occurrence }) => occurrence.id));
      await this.#heartbeat.beat(clock.now());
      if (this.#atWork.size === 0) return ids;
      await this.#changed(signal);
    }
  }

  /** Resolves when a place is free, or when it is time to renew claims. */
  async #changed(signal: AbortSignal | undefined): Promise<void> {
    const { clock } = this.#options;
    const freed = new Promise<void>((resolve) => (this.#tellFreed = resolve));
    await waitAtMost(clock, RENEW_MS, freed);
    if (signal?.aborted === true) await this.#renewInTime();
  }

  get #deps(): number {
    return this.#options.settings.maxParallelJobs - this.#atWork.size;
  }

  async #passes(): Promise<void> {
    while (this.#isWanted && !this.#isStopped) {
      this.#isWanted = false;
      await this.#passOnce();
    }
    if (!this.#isStopped) this.#sleep();
  }

  async #passOnce(): Promise<void> {
    const { clock, log } = this.#options;
    try {
      await this.tick();
      await this.#heartbeat.beat(clock.now());
      if (this.#isFailing) log.info("the scheduler looks at its jobs again");
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        log.error("the scheduler could not look at its jobs; it tries again every second", { error });
      }
      this.#isFailing = true;
      this.#nextDueMs = undefined;
      await this.#heartbeat.failed(clock.now(), error).catch(() => {});
    }
  }

  #sleep(): void {
    const { clock, pollMs } = this.#options;
    const untilMs = this.#deps <= 0 ? undefined : this.#nextDueMs;
    const waitMs = untilMs === undefined ? pollMs : untilMs - clock.now() - this.#aheadMs;
    this.#cancel = clock.after(Math.min(pollMs, Math.max(MIN_SLEEP_MS, waitMs)), () => this.wake());
  }

  #claim(limit: number, untilMs: number | undefined): Promise<ClaimRound> {
    const { store, settings, log } = this.#options;
    const until = untilMs === undefined ? {} : { untilMs };
    return claimRound({ store, settings, telling: this.#options, limit, ...until }, log);
  }

  #begin(claimed: Claimed): void {
    this.#atWork.add(claimed.occurrence.id, this.#options.fire(claimed));
  }

  #freed(): void {
    this.#tellFreed();
    // With room left, what is due has been taken already.
    if (this.#deps === 1) this.wake();
  }

  #tellMissed({ job_id, job_name, scheduled_at, covers_until, covers_count, reason }: OccurrenceRow): void {
    this.#options.log.warn("a job was not run at its time", {
      job: job_id,
      name: job_name,
      from: new Date(scheduled_at).toISOString(),
      until: new Date(covers_until ?? scheduled_at).toISOString(),
      count: covers_count,
      reason,
    });
  }

  /** At the start, and when the clock was put back: what was put off by a clock ahead is due when it should be. */
  async #correctAhead(storeMs: number): Promise<void> {
    const { store, log, clock } = this.#options;
    if (this.#seenMs === undefined || storeMs < this.#seenMs - AHEAD_MS) {
      const count = await correctAhead(store, log);
      if (count > 0) await this.#heartbeat.corrected(clock.now(), count);
    }
    this.#seenMs = storeMs;
  }

  /** Renews what is in hand here, and takes up what gone processes had in hand. */
  async #lookAfterClaims(): Promise<readonly Claimed[]> {
    const { store, clock, log } = this.#options;
    await this.#renewInTime();
    const nowMs = clock.now();
    const sinceMs = this.#lookedAtMs === undefined ? LOOK_MS : Math.abs(nowMs - this.#lookedAtMs);
    if (sinceMs < LOOK_MS) return [];
    this.#lookedAtMs = nowMs;
    const taken = await reclaim(store, {
      log,
      telling: this.#options,
      isMine: (id) => this.#atWork.has(id),
      deps: this.#deps,
      // Of a machine that slept nobody has renewed anything yet.
      onlyDead: sinceMs > CLAIM_MS,
    });
    for (const each of taken) this.#begin(each);
    return taken;
  }

  async #renewInTime(): Promise<void> {
    const nowMs = this.#options.clock.now();
    if (Math.abs(nowMs - this.#renewedAtMs) >= RENEW_MS) await this.#renew(nowMs);
  }

  async #renew(nowMs: number): Promise<void> {
    const { store, clock, log, told } = this.#options;
    const ids = this.#atWork.ids;
    this.#aheadMs = await store.write(
      async (tx) => {
        await renewClaims(tx, store.owner, ids);
        return tx.nowMs - clock.now();
      },
      { durable: false },
    );
    await this.#correctAhead(clock.now() + this.#aheadMs);
    this.#renewedAtMs = nowMs;
    await endOrphans(store, { log, telling: this.#options });
    for (const id of await endedOf(store, ids)) {
      told(id);
      this.#atWork.free(id);
    }
  }
}

async function nextDueMs(store: Store): Promise<number | undefined> {
  const row = await store.read
    .selectFrom("cron_jobs")
    .select("due_at")
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .limit(1)
    .executeTakeFirst();
  return row?.due_at ?? undefined;
}
