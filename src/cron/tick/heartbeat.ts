import { redact } from "../../base/observe/redact.ts";
import type { Store, Tx } from "../../store/store.ts";

/** How often at most a process says that its scheduler is alive, or what keeps it from working. */
const BEAT_MS = 20_000;
/** Rows of processes on other machines, which nobody can ask, go after it. */
const FORGET_MS = 7 * 24 * 3_600_000;

/** Tells other processes that a scheduler is alive, by a row of its own. */
export class Heartbeat {
  readonly #store: Store;
  #beatMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;

  constructor(store: Store) {
    this.#store = store;
  }

  /** All is well. */
  async beat(nowMs: number): Promise<void> {
    if (!this.#isFailing && !this.#isTime(nowMs)) return;
    const isFirst = this.#beatMs === Number.NEGATIVE_INFINITY;
    await this.#put({ ticked_at: nowMs, succeeded_at: nowMs, last_error: null });
    this.#isFailing = false;
    this.#beatMs = nowMs;
    if (isFirst) await this.#forgetGone(nowMs);
  }

  /** Something keeps it from working. Rejects when it cannot be told. */
  async failed(nowMs: number, error: unknown): Promise<void> {
    if (this.#isFailing && !this.#isTime(nowMs)) return;
    this.#isFailing = true;
    this.#beatMs = nowMs;
    const text = redact(error instanceof Error ? error.message : String(error));
    await this.#put({ ticked_at: nowMs, last_error: text.slice(0, 500) });
  }

  /** So many jobs had been put off by a clock ahead. */
  async corrected(nowMs: number, jobs: number): Promise<void> {
    await this.#put({ ticked_at: nowMs, last_error: null, corrected_at: nowMs, corrected_jobs: jobs });
  }

  /** This process looks for nothing any more. */
  async end(): Promise<void> {
    const { owner } = this.#store;
    this.#beatMs = Number.NEGATIVE_INFINITY;
    await this.#store.write((tx) => forget(tx, owner)).catch(() => {});
  }

  #isTime(nowMs: number): boolean {
    return Math.abs(nowMs - this.#beatMs) >= BEAT_MS;
  }

  async #forgetGone(nowMs: number): Promise<void> {
    const rows = await this.#store.read.selectFrom("cron_tickers").selectAll().execute();
    const gone = rows.filter(
      ({ owner, ticked_at: at }) => at < nowMs - FORGET_MS || this.#store.ownerIsDead(owner),
    );
    if (gone.length === 0) return;
    await this.#store.write(async (tx) => {
      for (const { owner } of gone) await forget(tx, owner);
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

async function forget(tx: Tx, owner: string): Promise<void> {
  await tx.db.deleteFrom("cron_tickers").where("owner", "=", owner).execute();
}
