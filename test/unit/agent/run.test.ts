import assert from "node:assert/strict";
import { test } from "node:test";
import {
  endRun,
  findRun,
  isFinalStatus,
  moveRun,
  parseInput,
  withoutPrompt,
  type RunStatus,
} from "../../../src/agent/run/run.ts";
import { createTestAgent } from "../../harness/agent.ts";

const all: readonly RunStatus[] = [
  "queued",
  "running",
  "waiting_for_approval",
  "stopping",
  "completed",
  "failed",
  "cancelled",
  "interrupted",
];
const legal = new Set([
  "queued running",
  "running waiting_for_approval",
  "running stopping",
  "waiting_for_approval running",
  "waiting_for_approval stopping",
]);

test("a run moves only where its state machine says, and never to an end by a mere move", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("hi");
  await agent.events(runId);
  for (const from of all) {
    for (const to of all) {
      await agent.store.write(async (tx) => void (await tx.update("runs", { id: runId }, { status: from })));
      const move = agent.store.write((tx) => moveRun(tx, runId, { from, to }));
      if (legal.has(`${from} ${to}`)) assert.equal(await move, true, `${from} ${to}`);
      else await assert.rejects(move, /cannot move/, `${from} ${to}`);
    }
  }
});

test("a run that is no longer where the mover thinks stays where it is", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("hi");
  await agent.events(runId);
  const moved = await agent.store.write((tx) => moveRun(tx, runId, { from: "running", to: "stopping" }));
  assert.equal(moved, false);
  assert.equal((await agent.run(runId)).status, "completed");
});

test("a final status never changes again", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("hi");
  await agent.events(runId);
  for (const status of ["failed", "cancelled", "interrupted", "completed"] as const) {
    assert.equal(await agent.store.write((tx) => endRun(tx, runId, status)), false);
  }
  assert.equal((await agent.run(runId)).status, "completed");
  assert.deepEqual(all.filter(isFinalStatus), ["completed", "failed", "cancelled", "interrupted"]);
  assert.equal(isFinalStatus("nonsense"), false);
});

test("a run is found by its owner only", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("hi");
  assert.equal((await findRun(agent.store, runId, "tester")).id, runId);
  await assert.rejects(findRun(agent.store, runId, "other"), { code: "run_not_found" });
  await assert.rejects(findRun(agent.store, "run_nope", "tester"), { code: "run_not_found" });
});

test("the row of a run at work has all of its input but the prompt, which is held beside it", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("hi", { id: "s" });
  await agent.events(runId);
  const row = await agent.run(runId);
  const input = { ...parseInput(row), prompt: [{ role: "user" as const, text: "long ".repeat(200_000) }] };
  const lean = withoutPrompt({ ...row, input: JSON.stringify(input) }, input);
  assert.deepEqual(lean, { ...row, input: lean.input });
  assert.deepEqual(parseInput(lean), { ...input, prompt: [] });
  assert.ok(lean.input.length < 1_000);
});
