import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestDeps, withCode } from "./deps.ts";

test("a session named like the stored key of another owner's tree does not open that tree", async () => {
  await using it = await createTestDeps();
  const tree = { session_id: "plan", subagents: [{ goal: "x" }] };
  const { path } = await it.call("spawn_tree.save", tree);
  const name = "tester:plan";
  await it.agent.submit("hello", { address: { owner: "other", id: name } });
  const other = it.as({ identity: { owner: "other", scopes: ["admin"] } });
  assert.deepEqual((await it.call("spawn_tree.list", { cross_session: true }, other)).entries, []);
  assert.deepEqual((await it.call("spawn_tree.list", { session_id: name }, other)).entries, []);
  await assert.rejects(it.call("spawn_tree.load", { path }, other), withCode(4016));
  const own = await it.call("spawn_tree.save", { ...tree, session_id: name }, other);
  assert.equal((await it.call("spawn_tree.load", { path: own.path }, other)).session_id, name);
  assert.equal((await it.call("spawn_tree.list", { session_id: name }, other)).entries.length, 1);
  assert.equal((await it.call("spawn_tree.list", { cross_session: true })).entries.length, 1);
});
