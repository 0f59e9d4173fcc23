import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestAgent } from "../../harness/agent.ts";
import { countStatements } from "../../harness/counted-store.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

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
