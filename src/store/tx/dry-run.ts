import type { Store } from "../store.ts";
import type { Tx } from "./tx.ts";

/** Carries the result of a dry run out of its transaction. */
class RolledBack<T> extends Error {
  override readonly name = "RolledBack";
  readonly result: T;

  constructor(result: T) {
    super("A dry run is rolled back.");
    this.result = result;
  }
}

/**
 * Runs `work` as {@link Store.write} does. With `dryRun`, the transaction is rolled back after `work` has succeeded: every
 * check is the real one, and nothing is stored or published.
 */
export async function writeOrTry<T>(
  store: Store,
  { dryRun }: { readonly dryRun: boolean },
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  if (!dryRun) return store.write(work);
  try {
    return await store.write(async (tx): Promise<T> => {
      throw new RolledBack(await work(tx));
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.result as T;
    throw error;
  }
}
