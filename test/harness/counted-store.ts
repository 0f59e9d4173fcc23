import type { TestContext } from "node:test";
import type { Store, Tx } from "../../src/store/store.ts";

export interface StatementCount {
  value: number;
}

const STATEMENTS: ReadonlySet<string | symbol> = new Set([
  "insert",
  "update",
  "increment",
  "find",
  "all",
  "run",
  "step",
]);

/** Counts the statements that the works of a store's transactions make, an insert of many rows as one. */
export function countStatements(t: TestContext, store: Store): StatementCount {
  const count: StatementCount = { value: 0 };
  const { write } = store;
  const counted = (tx: Tx): Tx =>
    new Proxy(tx, {
      get(target, key) {
        if (key === "db")
          return target.db.withPlugin({
            transformQuery: ({ node }) => (count.value++, node),
            transformResult: async ({ result }) => result,
          });
        const member: unknown = Reflect.get(target, key, target);
        if (typeof member !== "function") return member;
        if (STATEMENTS.has(key)) count.value++;
        return member.bind(target) as unknown;
      },
    });
  t.mock.method(store, "write", (...[work, options]: Parameters<typeof write>) =>
    write((tx) => work(counted(tx)), options),
  );
  return count;
}
