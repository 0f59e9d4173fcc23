import type { Store } from "../../store/store.ts";
import type { IdempotencyClaim } from "./idempotency.ts";

/** The newest work of each key. Another process's is told apart by the transaction that claims the key. */
const lines = new WeakMap<Store, Map<string, Promise<unknown>>>();

/**
 * Runs what a request does up to the record of its run, after that of an earlier one with the same Idempotency-Key:
 * until that is recorded, the repetition would be counted, and refused, as another run.
 */
export async function inTurn<T>(
  store: Store,
  claim: IdempotencyClaim | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (claim === undefined) return work();
  const line = lines.get(store) ?? new Map<string, Promise<unknown>>();
  lines.set(store, line);
  const key = JSON.stringify([claim.scope, claim.key]);
  const before = line.get(key);
  const own = (async () => {
    await before?.catch(() => {});
    return work();
  })();
  line.set(key, own);
  try {
    return await own;
  } finally {
    if (line.get(key) === own) line.delete(key);
  }
}
