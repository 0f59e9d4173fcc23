import type { Store } from "../store.ts";
import { rawTx } from "./tx.ts";
import type { Tx, Value } from "./tx.ts";

/** Works on many rows in small transactions, which let other writers in between. */
export class Batches {
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
