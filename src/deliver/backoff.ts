export interface Backoff {
  /** Most that the first retry waits. */
  readonly firstMs: number;
  /** How much longer each further one may wait. */
  readonly factor: number;
  /** Most that any waits. */
  readonly maxMs: number;
  /** 0 up to, but not, 1. */
  readonly random: () => number;
}

export const defaultBackoff: Backoff = { firstMs: 2_000, factor: 4, maxMs: 900_000, random: Math.random };

/**
 * How long to wait after a failed attempt, 1 for the first: anything up to a bound that grows (full jitter), so that
 * what failed together does not come back together.
 */
export function retryDelayMs(attempt: number, { firstMs, factor, maxMs, random }: Backoff): number {
  return Math.floor(random() * Math.min(firstMs * factor ** (attempt - 1), maxMs));
}
