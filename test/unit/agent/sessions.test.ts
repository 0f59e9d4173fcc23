import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { specSchemas } from "../../../src/http/edge/input.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { responseRow } from "../store/rows.ts";
import { unnamed } from "../../harness/unnamed.ts";

const OWNER = "tester";
const isCode = (code: string) => (error: unknown) => error instanceof ServiceError && error.code === code;

async function talk(agent: TestAgent, id: string, ...texts: string[]): Promise<void> {
  for (const text of texts) await agent.events((await agent.submit(text, { id })).runId);
}

async function sessionEvents(agent: TestAgent, sessionId: string) {
  const events = (await agent.store.journal.read({ sessionId })).filter(({ runId }) => runId === null);
  for (const event of events) {
    const { type, sessionId: session_id, seq, atMs, data } = event;
    const sent = { event: type, session_id, seq, timestamp: atMs / 1000, ...data };
    const issues = specSchemas.checkNamed("SessionEvent", sent);
    assert.equal(issues, undefined, `${event.type}: ${JSON.stringify(issues)}`);
  }
  return events.map(({ type, data }) => ({ type, data }));
}

test("saved sessions are listed newest first, a page at a time, without gap or repeat while one is updated", async () => {
  const clock = new FakeClock(1_000_000);
  await using agent = await createTestAgent({ clock });
  for (let n = 0; n < 25; n++) {
    await talk(agent, `s${n}`, `hello ${n}`);
    clock.tick(n % 3 === 0 ? 0 : 10);
  }
  const first = await agent.core.sessions.list({ owner: OWNER, limit: 10 });
  assert.equal(first.sessions[0]?.preview, "hello 24");
  await talk(agent, "s3", "again");
  const seen = first.sessions.map(({ id }) => id);
  let { nextCursor } = first;
  while (nextCursor !== undefined) {
    const page = await agent.core.sessions.list({ owner: OWNER, limit: 10, cursor: nextCursor });
    seen.push(...page.sessions.map(({ id }) => id));
    ({ nextCursor } = page);
  }
  assert.equal(new Set(seen).size, seen.length);
  // The one that moved to the top meanwhile is on no later page.
  assert.equal(seen.length, 24);
  assert.deepEqual((await agent.core.sessions.list({ owner: "stranger" })).sessions, []);
  await assert.rejects(
    agent.core.sessions.list({ owner: OWNER, cursor: "nonsense" }),
    isCode("invalid_cursor"),
  );
});

test("sessions made for one request, and those of sub-agents and background prompts, are in no list", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("stateless")).runId);
  await talk(agent, "kept", "hello");
  const task = await agent.core.background("kept", OWNER, "beside");
  await agent.events(task.runId);
  const { sessions } = await agent.core.sessions.list({ owner: OWNER });
  for (const none of [{ sources: [] }, { folders: [] }]) {
    assert.deepEqual((await agent.core.sessions.list({ owner: OWNER, ...none })).sessions, []);
  }
  assert.deepEqual(
    sessions.map(({ id }) => id),
    ["kept"],
  );
});

test("a title is trimmed and sent to followers, and refused when empty, too long or taken by another branch", async () => {
  await using agent = await createTestAgent();
  await talk(agent, "a", "hello");
  assert.equal(await agent.core.sessions.rename("a", OWNER, "  My\n title "), "My title");
  assert.deepEqual(await sessionEvents(agent, "a"), [
    { type: "session.updated", data: { title: "My title" } },
  ]);
  for (const bad of ["", " \n", "x".repeat(121)]) {
    await assert.rejects(agent.core.sessions.rename("a", OWNER, bad), isCode("invalid_title"));
  }
  const branch = await agent.core.sessions.branch("a", OWNER);
  assert.equal(branch.title, "My title #2");
  const third = await agent.core.sessions.branch(branch.id, OWNER);
  assert.equal(third.title, "My title #3");
  assert.equal(third.root_id, "a");
  await assert.rejects(agent.core.sessions.rename(third.id, OWNER, "My title"), isCode("invalid_title"));
  await talk(agent, "other", "hello");
  assert.equal(await agent.core.sessions.rename("other", OWNER, "My title"), "My title");
  await assert.rejects(agent.core.sessions.rename("a", "stranger", "x"), isCode("session_not_found"));
});

test("a session is found by its id or by its exact title, the newest of that name", async () => {
  const clock = new FakeClock(1_000_000);
  await using agent = await createTestAgent({ clock });
  for (const id of ["a", "b"]) {
    await talk(agent, id, "hello");
    clock.tick(5);
    await agent.core.sessions.rename(id, OWNER, "same");
  }
  assert.equal((await agent.core.sessions.find("same", OWNER)).id, "b");
  assert.equal((await agent.core.sessions.find("a", OWNER)).id, "a");
  await assert.rejects(agent.core.sessions.find("Same", OWNER), isCode("session_not_found"));
});

test("a branch at a message has its history and goes its own way", async () => {
  await using agent = await createTestAgent({
    script: ({ messages }) => ({ text: `saw ${messages.length}` }),
  });
  await talk(agent, "a", "one", "two", "three");
  const branch = await agent.core.sessions.branch("a", OWNER, { throughSeq: 4, title: "side" });
  assert.deepEqual([branch.title, branch.parent_id, branch.last_message], ["side", "a", 4]);
  await talk(agent, branch.id, "other");
  assert.equal((await agent.transcript("a")).length, 6);
  const mine = await agent.transcript(branch.id);
  assert.deepEqual(
    mine.map((message) => (message.role === "user" ? message.text : "-")),
    ["one", "-", "two", "-", "other", "-"],
  );
  assert.deepEqual(unnamed(mine.at(-1)), { role: "assistant", parts: [{ type: "text", text: "saw 5" }] });
  await assert.rejects(agent.core.sessions.branch("nowhere", OWNER), isCode("session_not_found"));
  await assert.rejects(
    agent.core.sessions.branch("a", OWNER, { throughSeq: 0 }),
    isCode("nothing_to_branch"),
  );
});

test("a branch never parts a tool call from its answers, and leaves out what a turn at work has said", async () => {
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  let calls = 0;
  await using agent = await createTestAgent({
    tools: [
      testTool(async () => {
        if (++calls > 2) {
          started.resolve();
          await gate.promise;
        }
        return "ran";
      }),
    ],
    script: callsOnce("echo 1", "echo 2"),
  });
  await talk(agent, "a", "one");
  const cut = await agent.core.sessions.branch("a", OWNER, { throughSeq: 2 });
  assert.deepEqual(
    (await agent.transcript(cut.id)).map(({ role }) => role),
    ["user", "assistant", "tool", "tool"],
  );
  const busy = await agent.submit("two", { id: "a" });
  await started.promise;
  const during = await agent.core.sessions.branch("a", OWNER);
  assert.equal((await agent.transcript(during.id)).length, 5);
  gate.resolve();
  await agent.events(busy.runId);
});

test("undo takes the newest prompts back with all that followed, and the model no longer sees them", async () => {
  await using agent = await createTestAgent({
    script: ({ messages }) => ({ text: messages.map((m) => (m.role === "user" ? m.text : "")).join(",") }),
  });
  await talk(agent, "a", "one", "two", "three");
  assert.deepEqual(await agent.core.sessions.undo("a", OWNER, 2), { removed: 4, prompt: "two" });
  const { runId } = await agent.submit("four", { id: "a" });
  await agent.events(runId);
  assert.equal((await agent.run(runId)).output, "one,,four");
  await assert.rejects(agent.core.sessions.undo("a", OWNER, 9), isCode("nothing_to_undo"));
  assert.ok((await sessionEvents(agent, "a")).some(({ type }) => type === "session.undone"));
});

test("what changes a conversation is refused while a turn is at work", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  const { runId } = await agent.submit("one", { id: "a" });
  await assert.rejects(agent.core.sessions.undo("a", OWNER), isCode("session_busy"));
  await assert.rejects(agent.core.sessions.delete("a", OWNER), isCode("session_busy"));
  await assert.rejects(agent.core.reset("a", OWNER), isCode("session_busy"));
  await assert.rejects(agent.core.compress("a", OWNER), isCode("session_busy"));
  gate.resolve();
  await agent.events(runId);
});

test("a deleted session is gone with its runs, messages, events, questions and stored responses", async () => {
  await using agent = await createTestAgent();
  await talk(agent, "a", "one");
  const run = await agent.store.read.selectFrom("runs").select("id").executeTakeFirstOrThrow();
  const response = responseRow({ sessionId: "a", runId: run.id });
  await agent.store.write((tx) => tx.insert("responses", [response]));
  await agent.core.sessions.delete("a", OWNER);
  for (const table of ["sessions", "runs", "messages", "events", "responses"] as const) {
    assert.deepEqual(await agent.store.read.selectFrom(table).selectAll().execute(), []);
  }
  await assert.rejects(agent.core.sessions.delete("a", OWNER), isCode("session_not_found"));
});

test("model, effort, mode and yolo belong to one session, and changes reach its followers", async () => {
  await using agent = await createTestAgent({
    providers: [{ name: "local", type: "openai_compatible", models: ["small", "large"] }],
    script: ({ model }) => ({ text: model }),
  });
  await talk(agent, "a", "one");
  await talk(agent, "b", "one");
  assert.equal(await agent.core.chooseModel("a", OWNER, "large"), "local:large");
  await agent.core.chooseEffort("a", OWNER, "high");
  await agent.core.sessions.choose("a", OWNER, { yolo: true });
  await agent.core.sessions.choose("a", OWNER, { mode: "plan" });
  const status = await agent.core.status("a", OWNER);
  assert.deepEqual([status.model, status.reasoningEffort, status.yolo], ["local:large", "high", true]);
  assert.equal(status.mode, "plan");
  const other = await agent.core.status("b", OWNER);
  assert.deepEqual([other.model, other.mode], ["local:small", undefined]);
  const { runId } = await agent.submit("which?", { id: "a" });
  await agent.events(runId);
  assert.equal((await agent.run(runId)).model, "local:large");
  assert.deepEqual(
    (await sessionEvents(agent, "a")).map(({ data }) => data),
    [{ model: "local:large" }, { reasoning_effort: "high" }, { yolo: true }, { mode: "plan" }],
  );
  await assert.rejects(agent.core.chooseModel("a", OWNER, "gpt-nothing"), isCode("model_not_found"));
  await assert.rejects(agent.core.chooseEffort("a", OWNER, "huge"), isCode("invalid_request"));
});

test("the usage of a session is the sum of its turns", async () => {
  await using agent = await createTestAgent({ script: () => ({ text: "12345678" }) });
  await talk(agent, "a", "abcd", "abcd");
  const { usage } = await agent.core.status("a", OWNER);
  assert.deepEqual([usage?.model_calls, usage?.output_tokens, usage?.input_tokens], [2, 4, 2]);
});

test("a background prompt runs beside the session, in a new context, and notifies the session of its end", async () => {
  await using agent = await createTestAgent({
    script: ({ messages }) => ({ text: `saw ${messages.length}` }),
  });
  await talk(agent, "a", "one", "two");
  const { runId } = await agent.core.background("a", OWNER, "aside");
  await agent.events(runId);
  assert.deepEqual(await sessionEvents(agent, "a"), [
    { type: "background.complete", data: { task_id: runId, status: "complete", text: "saw 1" } },
  ]);
  assert.equal((await agent.transcript("a")).length, 4);
});
