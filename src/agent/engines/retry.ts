import type { Clock } from "../../base/clock.ts";
import { isRetryable, retryAfterMs } from "./provider-error.ts";

const MAX_RETRIES = 2;
const FIRST_WAIT_MS = 250;
/** A provider that asks for more is not waited for: the caller is told instead. */
const MAX_WAIT_MS = 30_000;

export interface RetryOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** False once anything of the failed attempt was shown. */
  readonly mayRetry: () => boolean;
  readonly onRetry: (waitMs: number) => void;
}

/**
 * Runs `attempt` again after failures that may pass, at most twice, as long as nothing was shown: after 250 and 500 ms, or
 * what the provider asks for.
 */
export async function withRetries<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await attempt();
    } catch (error) {
      if (options.signal.aborted || !options.mayRetry() || retries === MAX_RETRIES || !isRetryable(error))
        throw error;
      const waitMs = retryAfterMs(error, options.clock.now()) ?? FIRST_WAIT_MS * 2 ** retries;
      if (waitMs > MAX_WAIT_MS) throw error;
      options.onRetry(waitMs);
      await options.clock.sleep(waitMs, { signal: options.signal });
    }
  }
}
