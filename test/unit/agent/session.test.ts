import assert from "node:assert/strict";
import { test } from "node:test";
import {
  checkSessionName,
  findSession,
  MAX_SESSION_NAME_LENGTH,
  nameOfId,
} from "../../../src/agent/session/session.ts";
import { createTestAgent } from "../../harness/agent.ts";

const check = (kind: "id" | "key", value: string) => () => checkSessionName(kind, value, "X-Name");

test("names of sessions may be what people and programs call them", () => {
  for (const name of [
    "a",
    "20260730_235959_0070123456789",
    "telegram:42",
    "café room",
    "a.b",
    "~",
    "x".repeat(256),
  ]) {
    check("id", name)();
    check("key", name)();
  }
  check("key", "a/b\\c/../d")();
});

test("names that could not be a header, a file name or a path segment are refused", () => {
  const both = ["", "a\nb", "a\u0000", "\u007f", "a\u0085b", "日本", "x".repeat(MAX_SESSION_NAME_LENGTH + 1)];
  for (const name of both) {
    assert.throws(check("id", name), { code: "invalid_session_id", param: "X-Name" }, JSON.stringify(name));
    assert.throws(check("key", name), { code: "invalid_session_key" }, JSON.stringify(name));
  }
  for (const name of ["a/b", "..", "a..b", "\\", "../../etc/passwd"]) {
    assert.throws(check("id", name), { code: "invalid_session_id" }, name);
  }
});

test("another owner's session looks as if it were not there, and cannot be spoken in", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("hi", { id: "mine" })).runId);
  const foreign = { owner: "other", id: "mine" };
  await assert.rejects(findSession(agent.store, foreign), { code: "session_not_found" });
  await assert.rejects(agent.submit("hi", { address: foreign }), { code: "session_not_found" });
});

test("a session name belongs to its owner, and so do the ids that clients got", async () => {
  await using agent = await createTestAgent();
  const say = async (owner: string, name: string) => {
    const { runId, sessionId } = await agent.submit("hi", { address: { owner, name } });
    await agent.events(runId);
    return sessionId;
  };
  const ids = [await say("default", "x"), await say("alice", "x"), await say("bob", "x")];
  assert.equal(new Set(ids).size, 3);
  assert.deepEqual(ids.map(nameOfId), ["x", "x", "x"]);
  for (const [index, owner] of ["default", "alice", "bob"].entries()) {
    assert.equal(await say(owner, "x"), ids[index]);
    assert.equal((await findSession(agent.store, { owner, name: "x" }))?.id, ids[index]);
    assert.equal((await agent.core.sessions.find("x", owner)).id, ids[index]);
  }
  const { runId, sessionId } = await agent.submit("hi", { address: { owner: "alice" } });
  await agent.events(runId);
  assert.equal(await say("alice", sessionId), sessionId);
  await assert.rejects(say("bob", sessionId), { code: "session_not_found" });
  await assert.rejects(agent.core.sessions.find("x", "carol"), { code: "session_not_found" });
});

test("the same key of two owners means two sessions", async () => {
  await using agent = await createTestAgent();
  const one = await agent.submit("hi", { address: { owner: "a", key: "k" } });
  const two = await agent.submit("hi", { address: { owner: "b", key: "k" } });
  assert.notEqual(one.sessionId, two.sessionId);
  await agent.events(one.runId);
  await agent.events(two.runId);
  assert.equal((await findSession(agent.store, { owner: "a", key: "k" }))?.id, one.sessionId);
});
