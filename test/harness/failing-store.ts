import type { TestContext } from "node:test";
import { unavailable } from "../../src/store/failure.ts";
import type { Store } from "../../src/store/store.ts";

/** How a write fails: nothing of it is done, or all of it is and its answer is lost. */
export type Fault = "refused" | "unanswered";

/** Decides by the number of a write, counted from 1, whether it fails. */
export type FaultPlan = (write: number) => Fault | undefined;

export interface FaultyWrites {
  /** Writes so far. */
  readonly count: number;
  /** Writes that failed so far. */
  readonly failed: number;
  plan: FaultPlan;
}

/** Makes writes of a store fail as they do while its database is away. Until `plan` is set all succeed. */
export function failWrites(t: TestContext, store: Store): FaultyWrites {
  const faulty = { count: 0, failed: 0, plan: (() => undefined) as FaultPlan };
  const { write } = store;
  t.mock.method(store, "write", async (...args: Parameters<typeof write>) => {
    faulty.count += 1;
    const fault = faulty.plan(faulty.count);
    if (fault === undefined) return write(...args);
    faulty.failed += 1;
    if (fault === "unanswered") await write(...args);
    throw unavailable("The database is away (a test).");
  });
  return faulty;
}
