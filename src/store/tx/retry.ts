import type { Clock } from "../../base/clock.ts";
import { isUnavailable } from "./failure.ts";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2_000;

export interface RetryOptions {
  readonly clock: Clock;
  /** From the first failure on, `work` is tried again for so long. */
  readonly forMs: number;
  /** When it aborts, the next failure is the last. */
  readonly signal?: AbortSignal;
  /** Called for each failure that another attempt follows. */
  readonly onRetry?: (error: unknown) => void;
}

/**
 * Resolves with what `work` resolves with. While the store is unavailable (locked, full, not connected) `work` is called
 * again, after pauses that double from 0.1 s to 2 s. Rejects with any other failure at once, and with the last one when
 * the time is over. `work` MUST expect that an attempt which failed was committed all the same: a connection may be lost
 * between the commit and its answer.
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  { clock, forMs, signal, onRetry }: RetryOptions,
): Promise<T> {
  let untilMs: number | undefined;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      return await work();
    } catch (error) {
      untilMs ??= clock.now() + forMs;
      if (!isUnavailable(error) || signal?.aborted || clock.now() >= untilMs) throw error;
      onRetry?.(error);
      // Cut short, the pause is followed by one more attempt.
      await clock.sleep(pauseMs, signal ? { signal } : {}).catch(() => {});
    }
  }
}
