import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import {
  openSession,
  rpcScenario,
  takeTurn,
  type Probe,
  type RpcSetting,
  type ScenarioOptions,
} from "../../contract/rpc/scenario.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import type { RpcHost } from "../../harness/rpc.ts";
import { createTestDeps, withCode } from "./deps.ts";

const CANARY = "canary-5ecret-value-91";

interface Row {
  /** Of the other specification. */
  readonly command: string;
  readonly methods: readonly string[];
  readonly options?: Omit<ScenarioOptions, "title">;
  drive(host: RpcHost, setting: RpcSetting): Promise<void>;
}

/** Turns wait for it; each drive makes its own. */
let gate = Promise.withResolvers<void>();
const waits: Script = async ({ user, signal }) => {
  signal.addEventListener("abort", () => gate.resolve(), { once: true });
  await gate.promise;
  return { text: `heard ${user}` };
};

/** The mapping from an external specification, row by row. */
const MAPPING: readonly Row[] = [
  {
    command: "prompt",
    methods: ["prompt.submit"],
    drive: async (host) => {
      const { status, text } = await takeTurn(host, await openSession(host), "hi");
      assert.deepEqual([status, text], ["complete", "hello"]);
    },
  },
  {
    command: "steer",
    methods: ["session.steer"],
    options: { script: waits },
    drive: async (host) => {
      gate = Promise.withResolvers();
      const session_id = await openSession(host);
      await host.result("prompt.submit", { session_id, text: "one" });
      await host.event("message.start");
      const { status, text } = await host.result("session.steer", { session_id, text: "left" });
      assert.deepEqual([status, text], ["queued", "left"]);
      gate.resolve();
      await host.event("message.complete");
    },
  },
  {
    command: "follow_up",
    methods: ["prompt.submit"],
    options: { script: waits },
    drive: async (host) => {
      gate = Promise.withResolvers();
      const session_id = await openSession(host);
      const one = await host.result("prompt.submit", { session_id, text: "one" });
      const two = await host.result("prompt.submit", { session_id, text: "two" });
      assert.deepEqual([one.status, two.status, two.queue_position], ["streaming", "queued", 1]);
      gate.resolve();
      await host.event("message.complete", ({ turn_id }) => turn_id === two.turn_id);
      const bounds = host
        .events(session_id)
        .filter(({ type }) => type === "message.start" || type === "message.complete")
        .map(({ type, turn_id }) => [type, turn_id]);
      assert.deepEqual(bounds, [
        ["message.start", one.turn_id],
        ["message.complete", one.turn_id],
        ["message.start", two.turn_id],
        ["message.complete", two.turn_id],
      ]);
    },
  },
  {
    command: "abort",
    methods: ["session.interrupt"],
    options: { script: waits },
    drive: async (host) => {
      gate = Promise.withResolvers();
      const session_id = await openSession(host);
      await host.result("prompt.submit", { session_id, text: "one" });
      await host.event("message.start");
      assert.equal((await host.result("session.interrupt", { session_id })).status, "interrupted");
      assert.equal((await host.event("message.complete")).payload.status, "interrupted");
    },
  },
  {
    command: "set_model",
    methods: ["command.dispatch"],
    options: { providers: [{ name: "local", type: "openai_compatible", models: ["a", "b"] }] },
    drive: async (host) => {
      const session_id = await openSession(host);
      const from = host.frames.length;
      const done = await host.result("command.dispatch", { command: "/model local:b", session_id });
      assert.equal(done.type, "exec");
      const { payload } = await host.event("session.info", (event) => event.session_id === session_id, from);
      assert.deepEqual([payload.provider, payload.model], ["local", "b"]);
      assert.equal((await host.result("config.get", { key: "model", session_id })).value, "local:b");
    },
  },
  {
    command: "compact",
    methods: ["session.compress"],
    options: { config: { compression: { keep_messages: 2 } } },
    drive: async (host) => {
      const session_id = await openSession(host);
      for (const text of ["one", "two", "three", "four"]) await takeTurn(host, session_id, text);
      const done = await host.result("session.compress", { session_id });
      assert.equal(done.status, "compressed");
      assert.ok(done.removed > 0 && done.after_messages < done.before_messages);
    },
  },
  {
    command: "get_state",
    methods: ["session.status"],
    drive: async (host) => {
      const session_id = await openSession(host, { title: "A name" });
      const { output, state } = await host.result("session.status", { session_id });
      assert.match(output, /A name/);
      assert.deepEqual([state.session_id, state.status, state.running], [session_id, "idle", false]);
    },
  },
  {
    command: "get_messages",
    methods: ["session.history"],
    drive: async (host) => {
      const session_id = await openSession(host);
      await takeTurn(host, session_id, "hi");
      const { messages } = await host.result("session.history", { session_id });
      assert.deepEqual(
        messages.map(({ role, text }: { role: string; text: string }) => [role, text]),
        [
          ["user", "hi"],
          ["assistant", "hello"],
        ],
      );
    },
  },
  {
    command: "switch_session",
    methods: ["session.resume"],
    drive: async (host) => {
      const first = await openSession(host);
      await takeTurn(host, first, "hi");
      await host.result("session.close", { session_id: first });
      await openSession(host);
      const back = await host.result("session.resume", { session_id: first });
      assert.deepEqual([back.session_id, back.resumed, back.messages.length], [first, first, 2]);
      assert.equal((await takeTurn(host, first, "again")).status, "complete");
    },
  },
  {
    command: "fork",
    methods: ["session.branch"],
    drive: async (host) => {
      const session_id = await openSession(host);
      await takeTurn(host, session_id, "hi");
      const fork = await host.result("session.branch", { session_id });
      assert.deepEqual([fork.parent, fork.messages.length], [session_id, 2]);
      await takeTurn(host, fork.session_id, "there");
      assert.equal((await host.result("session.history", { session_id })).count, 2);
    },
  },
  {
    command: "ui_request / ui_response",
    methods: ["clarify.respond", "sudo.respond", "secret.respond", "approval.respond"],
    options: { probe: askAll(), script: probeOnce("rm -rf /srv/a") },
    drive: async (host) => {
      const session_id = await openSession(host);
      await host.result("prompt.submit", { session_id, text: "go" });
      await host.event("approval.request");
      await host.result("approval.respond", { session_id, choice: "once" });
      const clarify = await host.event("clarify.request");
      const { request_id } = clarify.payload;
      await host.result("clarify.respond", { request_id, answer: "this" });
      const sudo = await host.event("sudo.request");
      await host.result("sudo.respond", { request_id: sudo.payload.request_id, password: CANARY });
      const secret = await host.event("secret.request");
      await host.result("secret.respond", { request_id: secret.payload.request_id, value: CANARY });
      const { payload } = await host.event("message.complete");
      assert.match(payload.text, /heard this, the password was right/);
      assert.ok(!JSON.stringify(host.frames).includes(CANARY));
    },
  },
];

for (const { command, methods, options = {}, drive } of MAPPING) {
  rpcScenario(methods, { ...options, title: `${command} works through ${methods.join(", ")}` }, drive);
}

test("every row of the table is tested, and none twice", () => {
  assert.deepEqual(
    MAPPING.map(({ command }) => command),
    "prompt steer follow_up abort set_model compact get_state get_messages switch_session fork"
      .split(" ")
      .concat("ui_request / ui_response"),
  );
});

function askAll(): Probe {
  return async (_, { questions }) => {
    const options = { choices: [], multi_select: false };
    const said = JSON.stringify(await questions.clarify([{ id: "q", question: "Which?", ...options }]));
    const isRight = (await questions.sudo("apt")) === CANARY;
    await questions.secret({ prompt: "Token?", envVar: "TOKEN" });
    return `heard ${said.includes("this") ? "this" : said}, the password was ${isRight ? "right" : "wrong"}`;
  };
}

function probeOnce(command: string): Script {
  return ({ step, toolResults }) =>
    step === 0
      ? { calls: [{ tool: "probe", input: { command } }] }
      : { text: toolResults.at(-1)?.text ?? "" };
}

test("ui_response: clarify, sudo and secret are answered once, and no event repeats the answer", async () => {
  await using it = await createTestDeps({
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
  const [events, questions] = await Promise.all([
    it.agent.store.read.selectFrom("events").selectAll().execute(),
    it.agent.store.read.selectFrom("questions").selectAll().execute(),
  ]);
  const said = JSON.stringify([await it.agent.transcript(sessionId), it.agent.logLines, events, questions]);
  assert.ok(!said.includes(CANARY));
});

test("subagent.interrupt stops a running sub-agent of its owner only", async () => {
  const begun = Promise.withResolvers<void>();
  await using it = await createTestDeps({
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
