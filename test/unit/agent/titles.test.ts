import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script, ScriptStep } from "../../../src/agent/engines/scripted.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { registerSecret } from "../../../src/base/observe.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";

const OWNER = "tester";
const isNaming = ({ instructions }: { readonly instructions: string }) => instructions.startsWith("You name");
const PROVIDERS = [{ name: "here", type: "openai", models: ["small"] }];

/** An agent that asks a model for titles; `name` is what that says. */
function naming(name: () => ScriptStep | Promise<ScriptStep>) {
  const script: Script = (state) => (isNaming(state) ? name() : { text: "Done." });
  return createTestAgent({ providers: PROVIDERS, settings: { titles: "model" }, script });
}

/** The title after one turn, the last of this agent: once it is drained, all that wants a name is being named. */
async function talk(agent: TestAgent, text: string, more: Parameters<TestAgent["submit"]>[1] = {}) {
  const { runId, sessionId } = await agent.submit(text, { id: "s", seed: { source: "tui" }, ...more });
  await agent.events(runId);
  await agent.runs.drain(0);
  await agent.core.titles.settled();
  return (await agent.session(sessionId)).title;
}

/** As `talk`, for agents that go on afterwards: a title is told by an event. */
async function named(agent: TestAgent, text: string, id = "s"): Promise<string> {
  const { runId } = await agent.submit(text, { id, seed: { source: "tui" } });
  await agent.events(runId);
  for await (const group of agent.store.journal.follow({ sessionId: id })) {
    for (const { type, data } of group) {
      if (type === "session.updated" && data["title"] !== undefined) return String(data["title"]);
    }
  }
  throw new Error("the session got no title");
}

test("a session is named by the model after its first turn, once", async () => {
  let asked = 0;
  await using agent = await naming(() => ({ text: `Name number ${++asked}` }));
  assert.equal(await named(agent, "fix the bug"), "Name number 1");
  await agent.events((await agent.submit("more", { id: "s" })).runId);
  await agent.core.titles.settled();
  assert.equal((await agent.session("s")).title, "Name number 1");
  assert.equal(asked, 1);
});

test("a title that someone gave meanwhile stays", async () => {
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  await using agent = await naming(
    async () => (asked.resolve(), await gate.promise, { text: "From the model" }),
  );
  await agent.events((await agent.submit("go", { id: "s", seed: { source: "tui" } })).runId);
  await asked.promise;
  await agent.core.sessions.rename("s", OWNER, "Mine");
  gate.resolve();
  await agent.core.titles.settled();
  assert.equal((await agent.session("s")).title, "Mine");
});

test("what cannot be a title is none: the prompt's start is taken instead", async () => {
  const answers: ScriptStep[] = [
    { text: "" },
    { text: "  \n " },
    { text: '"""' },
    { text: "\u202e\u200b" },
    { text: "x".repeat(121) },
    { text: "Half a ti", stop: "length" },
    { text: "I cannot", stop: "refusal" },
    { text: "partly", error: { code: "provider_error", message: "down" } },
  ];
  for (const step of answers) {
    await using agent = await naming(() => step);
    assert.equal(await talk(agent, "fix the bug"), "fix the bug", JSON.stringify(step));
  }
});

test("a session gets a title even if the model fails unexpectedly, and the log has the failure", async () => {
  await using agent = await naming(() => {
    throw new Error("boom");
  });
  assert.equal(await talk(agent, "fix the bug"), "fix the bug");
  assert.ok(agent.logLines.some((line) => line.includes("failed to name")));
});

test("what a conversation smuggles into a title is cleaned", async () => {
  const text = '# "Safe\u001b[2J \u202etitle\u0007".\nIgnore the rest\nand this';
  await using agent = await naming(() => ({ text }));
  assert.equal(await talk(agent, "go"), "Safe [2J title");
});

test("a secret in the prompt is in no title and in no question for one", async () => {
  registerSecret("hazelnut-5512");
  const heard: string[] = [];
  const script: Script = (state) => {
    if (!isNaming(state)) return { text: "Done." };
    heard.push(state.user);
    return { text: "" };
  };
  await using agent = await createTestAgent({ providers: PROVIDERS, settings: { titles: "model" }, script });
  const title = await talk(agent, "use hazelnut-5512 now");
  assert.ok(heard.length === 1 && !heard[0]?.includes("hazelnut"));
  assert.ok(title?.startsWith("use ") && !title.includes("hazelnut"), title ?? "null");
});

test("the demo model, surfaces without people, and the configuration take the prompt's start unasked", async () => {
  let asked = 0;
  const script: Script = (state) => (isNaming(state) ? (asked++, { text: "Asked" }) : { text: "ok" });
  await using demo = await createTestAgent({ settings: { titles: "model" }, script });
  assert.equal(await talk(demo, "one"), "one");
  await using hook = await createTestAgent({ providers: PROVIDERS, settings: { titles: "model" }, script });
  assert.equal(await talk(hook, "two", { seed: { source: "webhook" } }), "two");
  await using configured = await createTestAgent({
    providers: PROVIDERS,
    settings: { titles: "prompt" },
    script,
  });
  assert.equal(await talk(configured, "three"), "three");
  await using off = await createTestAgent({ providers: PROVIDERS, settings: { titles: "off" }, script });
  assert.equal(await talk(off, "four"), null);
  assert.equal(asked, 0);
});

test("sessions of one request, of sub-agents and of background prompts are not named", async () => {
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { titles: "prompt" },
    script: ({ user, step }) =>
      user === "go" && step === 0
        ? { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "child" }] } }] }
        : { text: "ok" },
  });
  await agent.events((await agent.submit("once")).runId);
  await named(agent, "go");
  await agent.events((await agent.core.background("s", OWNER, "beside")).runId);
  await agent.core.titles.settled();
  const rows = await agent.store.read.selectFrom("sessions").select(["source", "title"]).execute();
  assert.deepEqual(
    rows.filter(({ title }) => title !== null),
    [{ source: "tui", title: "go" }],
  );
  assert.equal(rows.length, 4);
});

test("a prompt of nothing visible leaves the session without a name, and without a complaint", async () => {
  await using agent = await naming(() => ({ text: "Asked" }));
  assert.equal(await talk(agent, "\u0000 \u200b"), null);
  assert.deepEqual(
    agent.logLines.filter((line) => line.includes("named")),
    [],
  );
});

test("stopping does not wait for a model that hangs", async () => {
  const asked = Promise.withResolvers<void>();
  const script: Script = async (state) => {
    if (!isNaming(state)) return { text: "ok" };
    asked.resolve();
    await new Promise((resolve) => state.signal.addEventListener("abort", resolve, { once: true }));
    return { text: "Too late" };
  };
  await using agent = await createTestAgent({ providers: PROVIDERS, settings: { titles: "model" }, script });
  await agent.events((await agent.submit("go", { id: "s", seed: { source: "tui" } })).runId);
  await asked.promise;
  await agent.core.titles.stop();
  assert.equal((await agent.session("s")).title, "go");
});

test("no model is asked for a title after a failed turn", async () => {
  let asked = 0;
  const script: Script = (state) => {
    if (isNaming(state)) return (asked++, { text: "Asked" });
    return { error: { code: "provider_error", message: "down" } };
  };
  await using agent = await createTestAgent({ providers: PROVIDERS, settings: { titles: "model" }, script });
  assert.equal(await talk(agent, "fix the bug"), "fix the bug");
  assert.equal(asked, 0);
});

const LOCAL = [{ name: "here", type: "openai_compatible", models: ["small"], isLocal: true }];

test("a prompt for a local model cancels the naming of a session, which takes the prompt's start", async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  const released = Promise.withResolvers<void>();
  const script: Script = async (state) => {
    if (!isNaming(state)) return { text: "Done." };
    asked.resolve(state.signal);
    await released.promise;
    return { text: "Too late" };
  };
  await using agent = await createTestAgent({ providers: LOCAL, settings: { titles: "model" }, script });
  await agent.events((await agent.submit("fix the bug", { id: "s", seed: { source: "tui" } })).runId);
  const naming = await asked.promise;
  await agent.events((await agent.submit("next", { id: "other" })).runId);
  const isCancelled = naming.aborted;
  released.resolve();
  await agent.core.titles.settled();
  assert.equal(isCancelled, true);
  assert.equal((await agent.session("s")).title, "fix the bug");
});

test("a local model that answers another prompt is not asked for a title", async () => {
  let asked = 0;
  const busy = Promise.withResolvers<void>();
  const script: Script = async (state) => {
    if (isNaming(state)) return (asked++, { text: "Asked" });
    if (state.user === "long") await busy.promise;
    return { text: "Done." };
  };
  await using agent = await createTestAgent({ providers: LOCAL, settings: { titles: "model" }, script });
  const long = await agent.submit("long", { id: "other", seed: { source: "webhook" } });
  assert.equal(await named(agent, "fix the bug"), "fix the bug");
  busy.resolve();
  await agent.events(long.runId);
  assert.equal(asked, 0);
});
