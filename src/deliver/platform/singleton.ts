import type { Clock } from "../../base/time.ts";
import type { Store } from "../../store/store.ts";

interface SingletonOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Name of the exclusive task. Contains no secret. */
  readonly name: string;
  /** Called when another process may have the lease. The caller MUST stop the task at once. */
  readonly onLost: () => void;
  /** How soon another process can take over from a dead one; default 30 s. */
  readonly leaseMs?: number;
}

const SCOPE = "singleton";
const LEASE_MS = 30_000;
/** Shortest time between two checks of the holder. */
const MIN_LOOK_MS = 1_000;

/** A lease that one process on a store holds at a time, such as for a platform that allows one connection. */
export class Singleton {
  readonly #options: SingletonOptions;
  readonly #leaseMs: number;
  #isHeld = false;
  /** Expected end of the lease, in this process's time. */
  #untilMs = 0;
  #elsewhereUntilMs: number | undefined;
  #isLooking = false;
  #cancelRenewal = () => {};
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: SingletonOptions) {
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
  }

  /**
   * Takes the lease and renews it until it is given back. Resolves to false when another process has it. Rejects when
   * the store is unavailable.
   */
  take(): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#isHeld) return true;
      const { store } = this.#options;
      const beganMs = this.#options.clock.now();
      const leftMs = await store.write(async (tx) => {
        const claim = await store.ledger.claim(tx, this.#request);
        return claim.claimed ? undefined : claim.row.expires_at - tx.nowMs;
      });
      if (leftMs !== undefined) this.#noteElsewhere(leftMs);
      else this.#hold(beganMs);
      return this.#isHeld;
    });
  }

  /**
   * Whether another process had the lease at the last check. Checks again in the background once that lease should be
   * over.
   */
  get isElsewhere(): boolean {
    if (this.#elsewhereUntilMs === undefined) return false;
    if (this.#elsewhereUntilMs <= this.#options.clock.now()) void this.#look();
    return true;
  }

  /** Releases the lease. When the store is unavailable, the lease expires instead. */
  giveBack(): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#isHeld) return;
      this.#stopHolding();
      const { store } = this.#options;
      await store.write((tx) => store.ledger.release(tx, this.#key)).catch(() => {});
    });
  }

  get #key() {
    return { scope: SCOPE, key: this.#options.name };
  }

  get #request() {
    return { ...this.#key, fingerprint: "", leaseMs: this.#leaseMs };
  }

  #hold(sinceMs: number): void {
    this.#isHeld = true;
    this.#elsewhereUntilMs = undefined;
    this.#untilMs = sinceMs + this.#leaseMs;
    this.#renewLater();
  }

  #stopHolding(): void {
    this.#isHeld = false;
    this.#cancelRenewal();
  }

  #renewLater(): void {
    this.#cancelRenewal();
    this.#cancelRenewal = this.#options.clock.after(this.#leaseMs / 3, () => {
      void this.#inTurn(() => this.#renew());
    });
  }

  async #renew(): Promise<void> {
    if (!this.#isHeld) return;
    const { store, clock } = this.#options;
    const beganMs = clock.now();
    try {
      const isOurs = await store.write(async (tx) => {
        const wasOurs = await store.ledger.release(tx, this.#key);
        return wasOurs && (await store.ledger.claim(tx, this.#request)).claimed;
      });
      if (isOurs) return this.#hold(beganMs);
      this.#lose();
    } catch {
      // The store may be back before the lease is over.
      if (clock.now() + this.#leaseMs / 3 < this.#untilMs) this.#renewLater();
      else this.#lose();
    }
  }

  #lose(): void {
    this.#stopHolding();
    this.#options.onLost();
  }

  #noteElsewhere(leftMs: number): void {
    this.#elsewhereUntilMs = this.#options.clock.now() + Math.max(leftMs, MIN_LOOK_MS);
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { store } = this.#options;
    try {
      const leftMs = await store.write(async (tx) => {
        const row = await store.ledger.find(tx, this.#key);
        return row && row.expires_at - tx.nowMs;
      });
      if (leftMs === undefined) this.#elsewhereUntilMs = undefined;
      else this.#noteElsewhere(leftMs);
    } catch {
      this.#noteElsewhere(this.#leaseMs);
    } finally {
      this.#isLooking = false;
    }
  }

  /** Runs one operation at a time: a renewal must not restore a lease that is being released. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work, work);
    this.#turn = done.catch(() => {});
    return done;
  }
}
