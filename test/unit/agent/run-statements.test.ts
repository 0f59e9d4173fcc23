import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { createTestAgent } from "../../harness/agent.ts";
import { storedChanges } from "../../harness/changes.ts";
import { countStatements } from "../../harness/counted-store.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { testDialect } from "../../harness/store.ts";

// On the clock of these stores each run is too young to have been steered by another process.

test("a run in a session of its own is recorded with four statements and ended with four", async (t) => {
  await using agent = await createTestAgent({ storeClock: new FakeClock() });
  const statements = countStatements(t, agent.store);
  const { runId } = await agent.submit("hi");
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
  assert.equal(statements.value, 8);
});

test("a run in a session that is kept takes at most thirteen statements", async (t) => {
  await using agent = await createTestAgent({ storeClock: new FakeClock() });
  const first = await agent.submit("hi", { id: "kept" });
  await agent.events(first.runId);
  const statements = countStatements(t, agent.store);
  const { runId } = await agent.submit("again", { id: "kept" });
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
  assert.ok(statements.value <= 13, `${statements.value} statements`);
});

test(
  "the changes of a run that one process begins and ends are written without reading the run",
  { skip: testDialect !== "sqlite" },
  async (t) => {
    const prepared: string[] = [];
    const { prepare } = DatabaseSync.prototype;
    t.mock.method(DatabaseSync.prototype, "prepare", function (this: DatabaseSync, sql: string) {
      prepared.push(sql);
      return prepare.call(this, sql);
    });
    await using agent = await createTestAgent();
    const { runId, sessionId } = await agent.submit("hi", { apiKey: "lena" });
    await agent.events(runId);
    const changes = await storedChanges(agent.store);
    const about = { kind: "run", session_id: sessionId, source: "test" };
    assert.deepEqual(
      changes.map(({ type, ref, owner, actor, data }) => [type, ref, owner, actor, data]),
      [
        ["run.created", runId, "tester", "lena", { status: "running", ...about }],
        ["run.updated", runId, "tester", null, { status: "completed", ...about }],
      ],
    );
    assert.deepEqual(
      prepared.filter((sql) => /\bjoin runs\b/.test(sql)),
      [],
    );
  },
);
