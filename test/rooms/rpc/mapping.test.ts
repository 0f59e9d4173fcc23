import assert from "node:assert/strict";
import { test } from "node:test";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestGateway } from "../../harness/rpc-host.ts";
import { createTestRoom, withCode } from "./room.ts";

const CANARY = "canary-5ecret-value-91";

test("prompt, follow_up, steer and abort are prompt.submit, session.steer and session.interrupt", async () => {
  await using gateway = await createTestGateway({
    script: ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ text: "" }), { once: true })),
  });
  const host = gateway.host();
  const { session_id } = await host.call("session.create");
  assert.equal((await host.call("prompt.submit", { session_id, text: "one" })).status, "streaming");
  const next = await host.call("prompt.submit", { session_id, text: "two" });
  assert.deepEqual([next.status, next.queue_position], ["queued", 1]);
  assert.equal((await host.call("session.steer", { session_id, text: "left" })).status, "queued");
  const end = await host.call("session.interrupt", { session_id, clear_queue: true });
  assert.equal(end.status, "interrupted");
});

test("compact, get_state, get_messages, switch_session and fork", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id } = await host.call("session.create");
  const from = host.events.length;
  await host.call("prompt.submit", { session_id, text: "hello" });
  await host.ended(from);
  assert.equal((await host.call("session.compress", { session_id })).status, "noop");
  assert.equal((await host.call("session.status", { session_id })).state.session_id, session_id);
  assert.equal((await host.call("session.history", { session_id })).messages[0]?.text, "hello");
  assert.equal((await host.call("session.branch", { session_id })).parent, session_id);
  await host.call("session.close", { session_id });
  assert.equal((await host.call("session.resume", { session_id })).resumed, session_id);
});

test("ui_response: clarify, sudo and secret are answered once, and no answer tells what was typed", async () => {
  await using it = await createTestRoom({
    tools: [
      testTool(async ({ command }, context) => {
        if (command === "c")
          return JSON.stringify(
            await context.questions.clarify([
              { id: "q", question: "Which?", choices: [], multi_select: false },
            ]),
          );
        if (command === "p") return (await context.questions.sudo("apt")) === CANARY ? "right" : "wrong";
        return context.questions.secret({ prompt: "Token?", envVar: "TOKEN" });
      }),
    ],
    script: callsOnce("c", "p", "s"),
    settings: { policyMode: "yolo" },
  });
  const { runId, sessionId } = await it.agent.submit("go", { answerable: true });
  const results: unknown[] = [];
  for await (const { type, data } of it.agent.follow(runId)) {
    const request_id = String(data["request_id"]);
    if (type === "clarify.request") {
      await assert.rejects(it.call("sudo.respond", { request_id, password: "x" }), withCode(4009));
      const elsewhere = { request_id, answer: "this", session_id: `${sessionId}x` };
      await assert.rejects(it.call("clarify.respond", elsewhere), withCode(4009));
      results.push(await it.call("clarify.respond", { request_id, answer: "this" }));
      await assert.rejects(it.call("clarify.respond", { request_id, answer: "that" }), withCode(4009));
    }
    if (type === "sudo.request") {
      await assert.rejects(
        it.call("sudo.respond", { request_id, password: `${CANARY}\n` }),
        withCode(-32602),
      );
      results.push(await it.call("sudo.respond", { request_id, password: CANARY }));
    }
    if (type === "secret.request") {
      const stranger = it.as({ identity: { owner: "other", scopes: ["admin"] } });
      await assert.rejects(it.call("secret.respond", { request_id, value: "x" }, stranger), withCode(4009));
      results.push(await it.call("request.answer", { id: request_id, result: { value: CANARY } }));
    }
  }
  assert.deepEqual(results, [{ status: "ok" }, { status: "ok" }, { status: "ok" }]);
  const [events, asks] = await Promise.all([
    it.agent.store.read.selectFrom("events").selectAll().execute(),
    it.agent.store.read.selectFrom("asks").selectAll().execute(),
  ]);
  const said = JSON.stringify([await it.agent.transcript(sessionId), it.agent.logLines, events, asks]);
  assert.ok(!said.includes(CANARY));
});

test("subagent.interrupt stops a sub-agent at work, and only its owner's", async () => {
  const begun = Promise.withResolvers<void>();
  await using it = await createTestRoom({
    tools: [createDelegateTask()],
    script: ({ user, step, signal }) => {
      if (user === "go" && step === 0) {
        return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "dig" }] } }] };
      }
      if (user === "go") return { text: "over" };
      begun.resolve();
      return new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve({ text: "" }), { once: true }),
      );
    },
  });
  const { runId, sessionId } = await it.agent.submit("go", { id: "s" });
  await begun.promise;
  const { active } = await it.call("delegation.status", { session_id: sessionId });
  assert.deepEqual([active.length, active[0]?.goal, active[0]?.parent_id], [1, "dig", runId]);
  const subagent_id = String(active[0]?.subagent_id);
  const stranger = it.as({ identity: { owner: "other", scopes: ["admin"] } });
  assert.deepEqual((await it.call("delegation.status", {}, stranger)).active, []);
  assert.equal((await it.call("subagent.interrupt", { subagent_id }, stranger)).found, false);
  assert.deepEqual(await it.call("subagent.interrupt", { subagent_id }), { found: true, subagent_id });
  assert.equal((await it.agent.events(runId)).at(-1)?.type, "run.completed");
});
