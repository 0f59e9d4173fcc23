import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Store } from "../store/store.ts";
import { claimDue, CLAIM_MS, type Claimed } from "./claim.ts";
import { Heartbeat } from "./heartbeat.ts";
import type { CronSettings } from "./settings.ts";
import { takeOver } from "./take-over.ts";

export interface TickerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: Pick<CronSettings, "catchUpMissed" | "maxParallelJobs">;
  /** Runs an occurrence to its end. MUST NOT reject. */
  readonly fire: (claimed: Claimed) => Promise<void>;
  /** Longest sleep: other processes' changes are seen after it. Default 1 s. */
  readonly pollMs?: number;
}

/** Jobs that one transaction decides about. */
const BATCH = 100;

/**
 * Looks for due jobs, one timer a process: it sleeps to the next instant, or for `pollMs`, and asks the store. Any number
 * of processes may do so; of one instant one gets the claim. It takes no more than it can run.
 */
export class Ticker {
  readonly #options: Required<TickerOptions>;
  readonly #heartbeat: Heartbeat;
  readonly #atWork = new Map<string, Promise<void>>();
  #cancel = () => {};
  #pass: Promise<unknown> | undefined;
  #isWanted = false;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #isStopped = true;

  constructor(options: TickerOptions) {
    this.#options = { pollMs: 1_000, ...options };
    this.#heartbeat = new Heartbeat(options.store);
  }

  /** Occurrences at work here. */
  get atWork(): number {
    return this.#atWork.size;
  }

  /** Resolves after the first pass. Never rejects. */
  async start(): Promise<void> {
    this.#isStopped = false;
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

  /** Claims nothing more. What is at work goes on; {@link settled} waits for it. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#pass;
    await this.#heartbeat.end();
  }

  async settled(): Promise<void> {
    await Promise.all(this.#atWork.values());
  }

  /** One pass over all that is due. Resolves to how many occurrences began; rejects when the store cannot be asked. */
  async tick(): Promise<number> {
    const { store, clock, settings } = this.#options;
    await this.#lookAfterClaims();
    let count = 0;
    for (;;) {
      const free = Math.min(BATCH, settings.maxParallelJobs - this.#atWork.size);
      if (free <= 0) return count;
      const due = await dueJobs(store, clock.now(), free);
      if (due.length === 0) return count;
      const claimed = await store.write(async (tx) => {
        const all: (Claimed | undefined)[] = [];
        for (const id of due) all.push(await claimDue(tx, id, { store, settings }));
        return all.filter((each) => each !== undefined);
      });
      for (const each of claimed) this.#begin(each);
      count += claimed.length;
      if (due.length < free) return count;
    }
  }

  async #passes(): Promise<void> {
    while (this.#isWanted && !this.#isStopped) {
      this.#isWanted = false;
      await this.#passOnce();
    }
    if (!this.#isStopped) await this.#sleep();
  }

  async #passOnce(): Promise<void> {
    const { clock, log } = this.#options;
    try {
      await this.tick();
      await this.#heartbeat.beat(clock.now());
    } catch (error) {
      log.error("the scheduler could not look at its jobs; it tries again", { error });
      await this.#heartbeat.failed(clock.now(), error).catch(() => {});
    }
  }

  async #sleep(): Promise<void> {
    const { store, clock, pollMs, settings } = this.#options;
    const isFull = this.#atWork.size >= settings.maxParallelJobs;
    const next = isFull ? undefined : await nextDueMs(store).catch(() => undefined);
    const waitMs = Math.min(pollMs, next === undefined ? pollMs : Math.max(MIN_SLEEP_MS, next - clock.now()));
    if (!this.#isStopped) this.#cancel = clock.after(waitMs, () => this.wake());
  }

  #begin(claimed: Claimed): void {
    const { id } = claimed.occurrence;
    const work = this.#options.fire(claimed).finally(() => {
      this.#atWork.delete(id);
      this.wake();
    });
    this.#atWork.set(id, work);
  }

  /** Renews what is claimed here, and takes up what gone processes had claimed. */
  async #lookAfterClaims(): Promise<void> {
    const { store, clock, log } = this.#options;
    const nowMs = clock.now();
    if (Math.abs(nowMs - this.#lookedAtMs) < CLAIM_MS / 3) return;
    this.#lookedAtMs = nowMs;
    await store.write((tx) =>
      tx.update(
        "occurrences",
        { lease_owner: store.owner, ended_at: null },
        { lease_until: tx.nowMs + CLAIM_MS },
      ),
    );
    for (const claimed of await takeOver(store, { log, isMine: (id) => this.#atWork.has(id) }))
      this.#begin(claimed);
  }
}

/** A database's clock may be behind ours. */
const MIN_SLEEP_MS = 20;

async function dueJobs(store: Store, nowMs: number, limit: number): Promise<readonly string[]> {
  const rows = await store.read
    .selectFrom("cron_jobs")
    .select("id")
    .where("due_at", "is not", null)
    .where("due_at", "<=", nowMs)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
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
