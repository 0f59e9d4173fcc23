import { setImmediate } from "node:timers/promises";
import { FakeClock } from "./fake-clock.ts";

/** A clock that stands still, and tells when somebody begins to wait. */
export class WatchedClock extends FakeClock {
  readonly #begun = new Map<number, PromiseWithResolvers<void>>();

  override after(ms: number, run: () => void): () => void {
    this.#waitOf(ms).resolve();
    return super.after(ms, run);
  }

  /** Resolves once somebody waits for `ms`, or has. */
  wait(ms: number): Promise<void> {
    return this.#waitOf(ms).promise;
  }

  /** Resolves once somebody else begins to wait for `ms`. */
  next(ms: number): Promise<void> {
    this.#begun.delete(ms);
    return this.#waitOf(ms).promise;
  }

  /** Moves on by `ms` whenever somebody may wait that long, until `fact` holds. */
  async tickUntil<T>(fact: Promise<T>, ms: number): Promise<T> {
    let holds = false;
    const settled = fact.finally(() => (holds = true));
    while (!holds) {
      const next = this.next(ms);
      this.tick(ms);
      await Promise.race([settled, next]);
      await setImmediate();
    }
    return settled;
  }

  #waitOf(ms: number): PromiseWithResolvers<void> {
    const known = this.#begun.get(ms) ?? Promise.withResolvers<void>();
    this.#begun.set(ms, known);
    return known;
  }
}
