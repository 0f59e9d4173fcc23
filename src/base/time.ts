/** The clock, and what depends on it: deadlines, rates, and what is under way. Pure but for the system clock. */

/** Time is injected: code that waits takes a Clock, so tests move time by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`. Rejects with the signal's reason when it aborts first. */
  sleep(ms: number, options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** Calls `run` once after `ms`; the returned function cancels it. The timer does not keep the process alive. */
  after(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, { signal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    (timer as { unref?: () => void }).unref?.();
    return () => clearTimeout(timer);
  },
};

// Deadlines

/** Rejects with the signal's reason when it aborts first: the caller does not wait for work that hangs. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Settles as `work` does, or resolves to undefined after `ms`, whichever comes first. The work itself continues. The timer
 * keeps the process alive until then.
 */
export async function waitAtMost<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | undefined> {
  const over = new AbortController();
  const late = clock.sleep(ms, { signal: over.signal }).then(
    () => undefined,
    () => undefined,
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort(OVER);
  }
}

/** Without a reason, each abort would make an exception with a stack trace. */
const OVER = "over";

// Rates

const MINUTE_MS = 60_000;
/** With more names, those whose window is over are dropped. */
const MAX_WINDOWS = 1_000;

interface Window {
  readonly startMs: number;
  passed: number;
  refused: number;
}

/** A refused request. */
export interface RateRefusal {
  /** Until the window is over; at least 1. */
  readonly seconds: number;
  /** Number of refused requests in this window, this one included. */
  readonly count: number;
}

/**
 * A fixed window, by default of a minute, that begins with the first request after the previous window, so delay in a
 * refusal is exact. Refused requests do not extend it.
 */
export class RateLimiter {
  /** Requests of one name that pass per window. */
  readonly max: number;
  readonly #windowMs: number;
  readonly #windows = new Map<string, Window>();

  constructor(max: number, { windowMs = MINUTE_MS }: { readonly windowMs?: number } = {}) {
    this.max = max;
    this.#windowMs = windowMs;
  }

  /** Counts a request. Undefined: it passes. */
  take(name: string, nowMs: number): RateRefusal | undefined {
    const window = this.#windowOf(name, nowMs);
    if (window.passed < this.max) {
      window.passed++;
      return undefined;
    }
    window.refused++;
    return {
      seconds: Math.max(1, Math.ceil((window.startMs + this.#windowMs - nowMs) / 1000)),
      count: window.refused,
    };
  }

  #windowOf(name: string, nowMs: number): Window {
    const known = this.#windows.get(name);
    if (known && this.#isOpen(known, nowMs)) return known;
    if (this.#windows.size >= MAX_WINDOWS) this.#forget(nowMs);
    const window = { startMs: nowMs, passed: 0, refused: 0 };
    this.#windows.set(name, window);
    return window;
  }

  #forget(nowMs: number): void {
    for (const [name, window] of this.#windows) if (!this.#isOpen(window, nowMs)) this.#windows.delete(name);
  }

  /** A clock that was set back must not extend the window. */
  #isOpen({ startMs }: Window, nowMs: number): boolean {
    return nowMs >= startMs && nowMs < startMs + this.#windowMs;
  }
}

// What is under way

/**
 * A map of what is under way: its entries come and go all the time. When a `Map` is full, V8 links its table
 * to the next one. Once a table is old, all that follow it stay in memory up to the next full collection, with all the
 * values that they held; here tables hold only keys and numbers.
 */
export class OngoingMap<K, V> {
  readonly #slots = new Map<K, number>();
  readonly #values: (V | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#slots.size;
  }

  has(key: K): boolean {
    return this.#slots.has(key);
  }

  get(key: K): V | undefined {
    const slot = this.#slots.get(key);
    return slot === undefined ? undefined : this.#values[slot];
  }

  set(key: K, value: V): void {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = this.#free.pop() ?? this.#values.length;
      this.#slots.set(key, slot);
    }
    this.#values[slot] = value;
  }

  delete(key: K): boolean {
    const slot = this.#slots.get(key);
    if (slot === undefined) return false;
    this.#slots.delete(key);
    this.#values[slot] = undefined;
    this.#free.push(slot);
    return true;
  }

  clear(): void {
    for (const key of this.#slots.keys()) this.delete(key);
  }

  /** In the order in which they were added. */
  keys(): MapIterator<K> {
    return this.#slots.keys();
  }

  /** In the order in which they were added. */
  *values(): Generator<V, undefined> {
    for (const slot of this.#slots.values()) yield this.#values[slot] as V;
    return undefined;
  }
}
