/** How messages are tried again. */
export interface RetryRules {
  /** Waits before each further attempt, milliseconds; where more attempts are asked for, the last one is repeated. */
  readonly delaysMs: readonly number[];
  /** 0 up to, but not, 1. */
  readonly random: () => number;
}

export const DEFAULT_RETRY_DELAYS_MS: readonly number[] = [60_000, 300_000, 1_800_000];

/** What failed together does not come back together. */
const JITTER = 0.1;

/** How long to wait after that attempt, 1 for the first: as the rules say, and up to a tenth more. */
export function retryDelayMs(attempt: number, { delaysMs, random }: RetryRules): number {
  const [fallback = 0] = DEFAULT_RETRY_DELAYS_MS;
  const delayMs = delaysMs[attempt - 1] ?? delaysMs.at(-1) ?? fallback;
  return Math.floor(delayMs * (1 + JITTER * random()));
}
