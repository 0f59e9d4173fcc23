import { setTimeout } from "node:timers";
import type { Clock } from "../../src/base/time.ts";

export interface Compression {
  /** When compressed time began, by the machine's clock, and what it showed then. */
  readonly originMs: number;
  readonly epochMs: number;
  /** Compressed milliseconds a millisecond. */
  readonly factor: number;
}

/** A day in minutes: time that runs faster than the machine's, the same in all processes that are told the same. */
export class CompressedClock implements Clock {
  readonly #compression: Compression;

  constructor(compression: Compression) {
    this.#compression = compression;
  }

  now(): number {
    return this.at(Date.now());
  }

  /** What it showed, or will, when the machine's clock shows `realMs`. */
  at(realMs: number): number {
    const { originMs, epochMs, factor } = this.#compression;
    return Math.floor(epochMs + (realMs - originMs) * factor);
  }

  after(ms: number, run: () => void): () => void {
    const timer = setTimeout(run, ms / this.#compression.factor);
    timer.unref();
    return () => clearTimeout(timer);
  }

  sleep(ms: number, { signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms / this.#compression.factor);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
}
