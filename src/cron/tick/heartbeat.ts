import { redact } from "../../base/observe/redact.ts";
import { deleteTicker, listTickers } from "../queries.ts";
import type { Store } from "../../store/store.ts";

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
