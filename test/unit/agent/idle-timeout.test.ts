import assert from "node:assert/strict";
import { test } from "node:test";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { IdleTimeout } from "../../../src/agent/run/control.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { Tool } from "../../../src/agent/tool/tool.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const LIMIT_MS = 600_000;

const hangs = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

async function open(options: { readonly script: Script; readonly tools?: readonly Tool[] }) {
  const clock = new FakeClock();
  const agent = await createTestAgent({ clock, ...options });
  return { agent, clock };
}

const submit = (agent: TestAgent, inactivityMs: number) =>
  agent.submit("go", {
    input: { prompt: [{ role: "user", text: "go" }], settings: {}, answerable: false, inactivityMs },
  });

async function endOf(agent: TestAgent, runId: string) {
  const final = (await agent.events(runId)).at(-1);
  const error = final?.data["error"] as { code: string; message: string } | undefined;
  return { type: final?.type, output: final?.data["output"], error };
}

const STOPPED = {
  type: "run.failed",
  output: undefined,
  error: {
    code: "agent_timeout",
    message: "Nothing happened in the run for 600 seconds: no text, and no output of a tool.",
  },
};

test("the inactivity limit stops a hung run, and a long run with output completes", async () => {
  const asked = Promise.withResolvers<void>();
  const hung = await open({
    script: ({ signal }) => {
      asked.resolve();
      return hangs(signal);
    },
  });
  await using agent = hung.agent;
  const { runId } = await submit(agent, LIMIT_MS);
  await asked.promise;
  hung.clock.tick(LIMIT_MS - 1);
  assert.equal((await agent.run(runId)).status, "running");
  hung.clock.tick(1);
  assert.deepEqual(await endOf(agent, runId), STOPPED);

  async function* slowly() {
    for (let piece = 0; piece < 20; piece++) {
      yield `${piece} `;
      active.clock.tick(LIMIT_MS - 1);
    }
  }
  const active = await open({ script: () => ({ text: slowly() }) });
  await using busy = active.agent;
  const long = await submit(busy, LIMIT_MS);
  assert.equal((await endOf(busy, long.runId)).type, "run.completed");
});

test("a tool that says nothing for so long is a hung run, one that prints is none", async () => {
  const called = Promise.withResolvers<void>();
  const tool = testTool(async ({ command }, { signal, progress }) => {
    if (command === "silent") {
      called.resolve();
      return hangs(signal);
    }
    // Much more than people are shown.
    for (let count = 0; count < 10; count++) {
      progress("x".repeat(100_000));
      clock.tick(LIMIT_MS - 1);
    }
    return "printed";
  });
  const { agent: opened, clock } = await open({
    script: callsOnce("printing"),
    tools: [tool],
  });
  await using agent = opened;
  const printing = await submit(agent, LIMIT_MS);
  assert.equal((await endOf(agent, printing.runId)).output, "ok: printed");

  const silent = await open({ script: callsOnce("silent"), tools: [tool] });
  await using quiet = silent.agent;
  const { runId } = await submit(quiet, LIMIT_MS);
  await called.promise;
  silent.clock.tick(LIMIT_MS);
  assert.deepEqual(await endOf(quiet, runId), STOPPED);
});

test("a run whose sub-agent is at work is active, and a hung sub-agent ends by itself", async () => {
  const asked = Promise.withResolvers<void>();
  let pieces = 0;
  async function* slowly() {
    for (; pieces < 5; pieces++) {
      yield "working ";
      clock.tick(LIMIT_MS - 1);
    }
  }
  const { agent: opened, clock } = await open({
    tools: [createDelegateTask()],
    script: ({ user, step, signal, toolResults }) => {
      if (user === "hang") {
        asked.resolve();
        return hangs(signal);
      }
      if (user === "work") return { text: slowly() };
      const task = step === 0 ? "work" : "hang";
      if (step < 2) return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: task }] } }] };
      return { text: toolResults.map(({ text }) => text).join("\n") };
    },
  });
  await using agent = opened;
  const { runId } = await submit(agent, LIMIT_MS);
  await asked.promise;
  clock.tick(LIMIT_MS);
  const { type, output } = await endOf(agent, runId);
  assert.equal(type, "run.completed");
  assert.equal(pieces, 5);
  assert.match(String(output), /working[\s\S]*Nothing happened in the run for 600 seconds/);
});

test("without a limit a run may be silent for ever", async () => {
  for (const limitMs of [0, undefined]) {
    const go = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const { agent: opened, clock } = await open({
      script: async () => {
        asked.resolve();
        await go.promise;
        return { text: "at last" };
      },
    });
    await using agent = opened;
    const { runId } = await (limitMs === undefined ? agent.submit("go") : submit(agent, limitMs));
    await asked.promise;
    clock.tick(30 * 24 * 3_600_000);
    go.resolve();
    assert.equal((await endOf(agent, runId)).output, "at last");
  }
});

/** A clock whose time can be set without a timer noticing, as that of a machine can. */
class SetClock extends FakeClock {
  #offMs = 0;

  override now(): number {
    return super.now() + this.#offMs;
  }

  set(byMs: number): void {
    this.#offMs += byMs;
  }
}

test("a clock that is set, and a machine that slept, make no run inactive", () => {
  for (const byMs of [24 * 3_600_000, -24 * 3_600_000]) {
    const clock = new SetClock();
    let told = 0;
    const inactivity = new IdleTimeout({ clock, limitMs: LIMIT_MS, onInactive: () => void told++ });
    clock.tick(LIMIT_MS - 1_000);
    inactivity.keepAlive();
    clock.set(byMs);
    clock.tick(1_000);
    assert.equal(told, 0);
    // From there on time counts as before.
    clock.tick(LIMIT_MS - 1);
    assert.equal(told, 0);
    clock.tick(1);
    assert.equal(told, 1);
    inactivity.stop();
    assert.equal(clock.pending, 0);
  }
});

test("work that looks after itself is not watched, and time counts anew when it has ended", async () => {
  const clock = new FakeClock();
  let told = 0;
  const inactivity = new IdleTimeout({ clock, limitMs: LIMIT_MS, onInactive: () => void told++ });
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const works = [inactivity.during(() => first.promise), inactivity.during(() => second.promise)];
  clock.tick(5 * LIMIT_MS);
  first.resolve();
  await works[0];
  clock.tick(5 * LIMIT_MS + 7);
  second.reject(new Error("gone"));
  await assert.rejects(works[1]!, /gone/);
  clock.tick(LIMIT_MS - 1);
  assert.equal(told, 0);
  clock.tick(1);
  assert.equal(told, 1);
});
