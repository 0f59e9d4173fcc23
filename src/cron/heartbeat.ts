import type { Store } from "../store/store.ts";

/** How often at most a process says that its scheduler is alive. */
const BEAT_MS = 20_000;

/** Tells other processes that a scheduler is alive, by a row of its own. */
export class Heartbeat {
  readonly #store: Store;
  #beatMs = Number.NEGATIVE_INFINITY;

  constructor(store: Store) {
    this.#store = store;
  }

  async beat(nowMs: number): Promise<void> {
    if (Math.abs(nowMs - this.#beatMs) < BEAT_MS) return;
    this.#beatMs = nowMs;
    await this.#put({ ticked_at: nowMs, succeeded_at: nowMs, last_error: null });
  }

  async failed(nowMs: number, error: unknown): Promise<void> {
    this.#beatMs = nowMs;
    const text = error instanceof Error ? error.message : String(error);
    await this.#put({ ticked_at: nowMs, last_error: text.slice(0, 500) });
  }

  async end(): Promise<void> {
    const { owner } = this.#store;
    await this.#store
      .write((tx) => tx.db.deleteFrom("cron_tickers").where("owner", "=", owner).execute())
      .catch(() => {});
  }

  async #put(columns: {
    ticked_at: number;
    succeeded_at?: number;
    last_error: string | null;
  }): Promise<void> {
    const { owner } = this.#store;
    await this.#store.write(
      async (tx) => {
        if ((await tx.update("cron_tickers", { owner }, columns)) === 1) return;
        const row = { owner, started_at: columns.ticked_at, succeeded_at: null, ...columns };
        await tx.insert("cron_tickers", [row]);
      },
      { durable: false },
    );
  }
}
