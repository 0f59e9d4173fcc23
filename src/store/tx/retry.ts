import type { Clock } from "../../base/clock.ts";
import { isUnavailable } from "./failure.ts";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2_000;

export interface RetryOptions {
  readonly clock: Clock;
  /** How long `work` is retried, from the first failure on. */
  readonly forMs: number;
  /** After an abort, the next failure is final. */
  readonly signal?: AbortSignal;
  /** Called before each retry. */
  readonly onRetry?: (error: unknown) => void;
}

/**
 * Resolves as `work` does. Retries while the store is unavailable (locked, full, not connected), with delays that
 * double from 0.1 s to 2 s. Rejects with any other failure at once, and with the last one when the time is over. `work`
 * MUST expect that a failed attempt was committed all the same: a connection may be lost between the commit and its
 * answer.
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
      // One more attempt follows an aborted delay.
      await clock.sleep(pauseMs, signal ? { signal } : {}).catch(() => {});
    }
  }
}
