/** What happens to conversations that grow, branch and cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "../../src/agent/engine.ts";
import { FakeClock } from "../harness/fake-clock.ts";
import { createTestAgent, testTool } from "../harness/agent.ts";
import { assertStrict } from "../harness/strict.ts";

const OWNER = "tester";

test("compression with open tool calls keeps every call with its answers", async () => {
  const asked: string[] = [];
  await using agent = await createTestAgent({
    tools: [testTool(async ({ command }) => `ran ${command}`)],
    settings: { compression: { threshold: undefined, keepMessages: 3, model: undefined } },
    script: ({ step, user, instructions }) => {
      if (instructions.startsWith("You summarise")) {
        asked.push(user);
        return { text: "They did things." };
      }
      return step < 3
        ? { calls: [1, 2].map((n) => ({ tool: "terminal", input: { command: `echo ${step}${n}` } })) }
        : { text: "done" };
    },
  });
  const { runId, sessionId } = await agent.submit("do much", { id: "s" });
  await agent.events(runId);
  const done = await agent.core.compress(sessionId, OWNER, { focus: "the names" });
  assert.equal(done.status, "compressed");
  assert.ok(done.afterMessages < done.beforeMessages && done.afterTokens < done.beforeTokens);
  assert.match(asked[0] ?? "", /the names/);
  const seen: Message[][] = [];
  await using other = await createTestAgent({
    database: agent.databaseUrl,
    script: ({ messages }) => (seen.push([...messages]), { text: "ok" }),
  });
  await other.events((await other.submit("next", { id: sessionId })).runId);
  assertStrict(seen[0] ?? []);
  assert.match(seen[0]?.[0]?.role === "user" ? seen[0][0].text : "", /They did things/);
  assert.equal((await agent.transcript(sessionId)).length, 13, "people still see all of it");
});

test("a conversation near the limit is compressed by itself, and the turn continues", async () => {
  await using agent = await createTestAgent({
    providers: [{ name: "local", type: "openai_compatible", models: ["m"], contextTokens: 1_000 }],
    settings: { compression: { threshold: 0.5, keepMessages: 2, model: undefined } },
    script: ({ instructions, messages }) =>
      instructions.startsWith("You summarise")
        ? { text: "Short." }
        : { text: `${messages.length}: ${"x".repeat(800)}` },
  });
  const ends = [];
  for (const text of ["one", "two", "three", "four"]) {
    ends.push(await agent.events((await agent.submit(text, { id: "s" })).runId));
  }
  const compressed = ends.flat().filter(({ type }) => type === "compression.completed");
  assert.ok(compressed.length > 0);
  assert.equal(compressed[0]?.data["status"], "compressed");
  assert.equal(ends.flat().find(({ type }) => type === "compression.started")?.data["reason"], "near_limit");
  assert.ok(ends.every((events) => events.at(-1)?.type === "run.completed"));
});

test("an overflow of the provider leads to one compression and one retry", async () => {
  let refused = 0;
  await using agent = await createTestAgent({
    settings: { compression: { threshold: undefined, keepMessages: 4, model: undefined } },
    script: ({ instructions, messages, user }) => {
      if (instructions.startsWith("You summarise")) return { text: "Short." };
      if (user === "big" && messages.length > 5) {
        refused++;
        return { error: { code: "context_too_long", message: "The context is too long." } };
      }
      return { text: "fine" };
    },
  });
  for (const text of ["a", "b", "c"]) await agent.events((await agent.submit(text, { id: "s" })).runId);
  const events = await agent.events((await agent.submit("big", { id: "s" })).runId);
  assert.equal(refused, 1);
  assert.equal(events.find(({ type }) => type === "compression.started")?.data["reason"], "overflow");
  assert.equal(events.at(-1)?.data["output"], "fine");
});

test("branch and resume: the branch continues in another process with its history", async () => {
  await using agent = await createTestAgent({ script: ({ user }) => ({ text: `re: ${user}` }) });
  await agent.events((await agent.submit("one", { id: "s" })).runId);
  const branch = await agent.core.sessions.branch("s", OWNER, { title: "other way" });
  await using next = await createTestAgent({
    database: agent.databaseUrl,
    script: ({ messages }) => ({ text: `${messages.length} messages` }),
  });
  const found = await next.core.sessions.find("other way", OWNER);
  assert.equal(found.id, branch.id);
  const { runId } = await next.submit("two", { id: found.id });
  await next.events(runId);
  assert.equal((await next.run(runId)).output, "3 messages");
});

test("a spent budget stops the run before the next model call", async () => {
  let calls = 0;
  await using agent = await createTestAgent({
    tools: [testTool(async () => "ran")],
    settings: { budget: { runTokens: 10, dayTokens: 0 } },
    script: () => {
      calls++;
      return { text: "x".repeat(80), calls: [{ tool: "terminal", input: { command: "ls" } }] };
    },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  const last = (await agent.events(runId)).at(-1);
  assert.equal(calls, 1);
  assert.deepEqual(last?.type, "run.failed");
  assert.match(JSON.stringify(last.data["error"]), /"budget_exceeded"/);
  assertStrict(await agent.transcript(sessionId));
});

test("the budget of a day holds across runs and processes, and ends with the day", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1, 12));
  const settings = { budget: { runTokens: 0, dayTokens: 15 } };
  const script = () => ({ text: "x".repeat(80) });
  await using agent = await createTestAgent({ clock, settings, script });
  assert.equal((await agent.events((await agent.submit("1")).runId)).at(-1)?.type, "run.completed");
  assert.equal((await agent.events((await agent.submit("2")).runId)).at(-1)?.type, "run.failed");
  await using other = await createTestAgent({ clock, settings, script, database: agent.databaseUrl });
  assert.equal((await other.events((await other.submit("3")).runId)).at(-1)?.type, "run.failed");
  clock.tick(12 * 3_600_000);
  assert.equal((await other.events((await other.submit("4")).runId)).at(-1)?.type, "run.completed");
});
