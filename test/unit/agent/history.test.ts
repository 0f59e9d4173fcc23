import assert from "node:assert/strict";
import { test } from "node:test";
import { addMessages, loadContext, numberContext } from "../../../src/agent/session/transcript.ts";
import type { Message } from "../../../src/agent/engine.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";

const user = (text: string): Message => ({ role: "user", text });
const answer = (text: string): Message => ({ role: "assistant", parts: [{ type: "text", text }] });
const summary: Message = { role: "user", origin: "summary", text: "What was said." };

/** A session with these messages behind those of its first turn, which are forgotten; the row of it. */
async function sessionWith(agent: TestAgent, messages: readonly Message[], summaryAt?: number) {
  const { store } = agent;
  const { runId, sessionId } = await agent.submit("first");
  await agent.events(runId);
  const forgotten = (await agent.session(sessionId)).last_message;
  const last = (await store.write((tx) => addMessages(tx, { sessionId, runId }, messages))) ?? 0;
  const summarySeq = summaryAt === undefined ? null : last - messages.length + 1 + summaryAt;
  const set = { context_seq: forgotten, summary_seq: summarySeq };
  await store.write((tx) => tx.update("sessions", { id: sessionId }, set));
  return agent.session(sessionId);
}

test("messages that are at hand get the numbers that they have in the store", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const messages = [user("one"), answer("1"), user("two")];
  const session = await sessionWith(agent, messages);
  assert.deepEqual(await numberContext(store, session, messages), await loadContext(store, session));
});

test("a summary comes first with its number, though it was written after what it stands before", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const session = await sessionWith(agent, [user("two"), answer("2"), summary], 2);
  const messages = [summary, user("two"), answer("2")];
  assert.deepEqual(await numberContext(store, session, messages), await loadContext(store, session));
});

test("messages that are not those of the store get no numbers", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const session = await sessionWith(agent, [user("one"), answer("1")]);
  assert.equal(await numberContext(store, session, [user("one")]), undefined);
  assert.equal(await numberContext(store, session, [user("one"), user("two")]), undefined);
  assert.equal(await numberContext(store, session, [summary, answer("1")]), undefined);
});

test("an earlier summary in sight is left out", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const session = await sessionWith(agent, [user("two"), summary, answer("2"), summary], 3);
  const messages = [summary, user("two"), answer("2")];
  const context = await loadContext(store, session);
  assert.equal(context.length, 3);
  assert.deepEqual(await numberContext(store, session, messages), context);
});
