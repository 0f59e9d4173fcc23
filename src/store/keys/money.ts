/** Budgets in the database, which has integers only. Pure. */

/** Billionths in a US dollar. */
const NANO = 1e9;

/** Returns US dollars. */
export function toUsd(nano: number | null): number | null {
  return nano === null ? null : nano / NANO;
}

/** Returns billionths of a US dollar. */
export function toNano(usd: number | null): number | null {
  return usd === null ? null : Math.round(usd * NANO);
}
