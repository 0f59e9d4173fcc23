/** Money and days. Costs are stored in billionths of a US dollar, which are integers; prices are in US dollars. Pure. */

/** Billionths in a US dollar. */
export const NANO = 1e9;

const DAY_SECONDS = 86_400;

/** Returns the day of a time as `2026-01-31`, in UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Returns the seconds until the next midnight (UTC), at least 1. */
export function secondsToMidnight(ms: number): number {
  return DAY_SECONDS - (Math.floor(ms / 1000) % DAY_SECONDS);
}

/**
 * Returns a cost as surfaces show it, in US dollars. Null: nothing of what was used has a known price. What is unpriced
 * beside something priced is missing from the cost.
 */
export function costUsd(used: {
  readonly costNano: number;
  readonly unpricedTokens: number;
  readonly tokens: number;
}): number | null {
  return used.unpricedTokens > 0 && used.unpricedTokens >= used.tokens ? null : used.costNano / NANO;
}

/** Returns an amount of US dollars for people, with two digits that matter. */
export function formatUsd(usd: number): string {
  const digits = usd === 0 || usd >= 0.1 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(usd)));
  return `$${usd.toFixed(digits)}`;
}
