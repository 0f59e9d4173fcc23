import assert from "node:assert/strict";
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

const source = join(import.meta.dirname, "../../../src");
const STATEMENT = /\.(?:selectFrom|insertInto|updateTable|deleteFrom)\(/;

/** The agent owns most tables; these of its files read or change them inside of one operation. */
const AGENT_FILES: ReadonlySet<string> = new Set(
  [
    ...["list", "session", "sessions", "titles", "transcript"].map((name) => `session/${name}`),
    ...["control", "run", "session-queue"].map((name) => `run/${name}`),
    ...["rebuild-step", "recovery", "resume", "take-over"].map((name) => `recovery/${name}`),
    ...["grants", "question", "questions"].map((name) => `question/${name}`),
    "usage/usage",
  ].map((name) => `agent/${name}.ts`),
);

test("only the store, the queries of a module and the data files of the agent write SQL", async () => {
  const found: string[] = [];
  const unused = new Set(AGENT_FILES);
  for await (const file of glob("**/*.ts", { cwd: source })) {
    if (file.startsWith("store/") || file.endsWith("queries.ts")) continue;
    if (!STATEMENT.test(await readFile(join(source, file), "utf8"))) continue;
    if (!unused.delete(file)) found.push(file);
  }
  assert.deepEqual(found, [], "move these statements to queries.ts of the module that owns the table");
  assert.deepEqual([...unused], [], "these files contain no statement any more");
});
