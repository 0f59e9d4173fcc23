import type { TestContext } from "node:test";
import { unavailable } from "../../src/store/tx/group.ts";
import type { Store } from "../../src/store/store.ts";

/** How a write fails: it is not begun, it is done and undone again, or it is done and its answer is lost. */
export type Fault = "refused" | "undone" | "unanswered";

export const faults: readonly Fault[] = ["refused", "undone", "unanswered"];

/** Decides by the number of a write, counted from 1, whether it fails. */
export type FaultPlan = (write: number) => Fault | undefined;

export interface FaultyWrites {
  /** Writes since the last `begin`. */
  readonly count: number;
  /** Counts from 1 again, and fails by another plan. */
  begin(plan: FaultPlan): void;
}

/** Makes writes of a store fail as they do while its database is away. Until `begin` is called all succeed. */
export function failWrites(t: TestContext, store: Store): FaultyWrites {
  let count = 0;
  let plan: FaultPlan = () => undefined;
  const { write } = store;
  t.mock.method(store, "write", async (...args: Parameters<typeof write>) => {
    const fault = plan(++count);
    if (fault === undefined) return write(...args);
    const away = unavailable("The database is away (a test).");
    if (fault === "unanswered") await write(...args);
    if (fault !== "undone") throw away;
    const [work, options] = args;
    return write(async (tx) => {
      await work(tx);
      throw away;
    }, options);
  });
  return {
    get count() {
      return count;
    },
    begin(next) {
      count = 0;
      plan = next;
    },
  };
}
