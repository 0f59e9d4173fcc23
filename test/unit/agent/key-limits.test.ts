import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { KeyLimits } from "../../../src/agent/usage/budgets.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { systemClock } from "../../../src/base/time.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { createTestAgent, type TestAgent, type TestAgentOptions } from "../../harness/agent.ts";

/** Seconds to wait, undefined for a request that is let through. */
function waitOf(limits: KeyLimits, owner: string): number | undefined {
  try {
    limits.countRequest(owner);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "rate_limit_exceeded");
    return error.retryAfterSeconds;
  }
}

test("a key gets its requests per minute, and the error says when the next one passes", () => {
  const clock = new FakeClock();
  const limits = new KeyLimits([{ name: "ci", rateLimitRpm: 3 }], clock);
  assert.equal(waitOf(limits, "ci"), undefined);
  clock.tick(10_500);
  assert.equal(waitOf(limits, "ci"), undefined);
  assert.equal(waitOf(limits, "ci"), undefined);
  assert.equal(waitOf(limits, "ci"), 50);
  clock.tick(49_499);
  assert.equal(waitOf(limits, "ci"), 1);
  clock.tick(1);
  assert.equal(waitOf(limits, "ci"), undefined);
});

test("a refused request costs nothing of the next minute", () => {
  const clock = new FakeClock();
  const limits = new KeyLimits([{ name: "ci", rateLimitRpm: 1 }], clock);
  assert.equal(waitOf(limits, "ci"), undefined);
  for (let i = 0; i < 100; i++) assert.equal(waitOf(limits, "ci"), 60);
  clock.tick(60_000);
  assert.equal(waitOf(limits, "ci"), undefined);
});

test("keys of one name share their limits, the smaller holds; other keys have their own, or none", () => {
  const keys = [
    { name: "ci", rateLimitRpm: 5, maxConcurrentRuns: 2 },
    { name: "ci", rateLimitRpm: 1, maxConcurrentRuns: 3 },
    { name: "ci" },
    { name: "other", rateLimitRpm: 1 },
  ];
  const limits = new KeyLimits(keys, new FakeClock());
  assert.equal(waitOf(limits, "ci"), undefined);
  assert.equal(waitOf(limits, "ci"), 60);
  assert.equal(waitOf(limits, "other"), undefined);
  for (let i = 0; i < 10_000; i++) assert.equal(waitOf(limits, "free"), undefined);
  assert.deepEqual(
    [limits.maxRunsOf("ci"), limits.maxRunsOf("other"), limits.maxRunsOf("free")],
    [2, undefined, undefined],
  );
});

test("a clock that is set back does not stretch the minute", () => {
  let nowMs = 1_000_000;
  const clock = Object.assign(new FakeClock(), { now: () => nowMs });
  const limits = new KeyLimits([{ name: "ci", rateLimitRpm: 1 }], clock);
  assert.equal(waitOf(limits, "ci"), undefined);
  nowMs -= 500_000;
  assert.equal(waitOf(limits, "ci"), undefined);
  assert.equal(waitOf(limits, "ci"), 60);
});

/** An agent whose turns work until it is put away; `max` runs of the owner `tester` may be at work. */
function limitedAgent(max: number, more: TestAgentOptions = {}): Promise<TestAgent> {
  const keyLimits = new KeyLimits([{ name: "tester", maxConcurrentRuns: max }], systemClock);
  const script: Script = async ({ signal }) => {
    if (!signal.aborted) await once(signal, "abort");
    return { text: "done" };
  };
  return createTestAgent({ script, keyLimits, ...more });
}

const refused = (error: unknown) =>
  error instanceof ServiceError &&
  error.code === "too_many_concurrent_runs" &&
  /"tester".*max_concurrent_runs/.test(error.message);

async function countAtWork({ store }: TestAgent): Promise<number> {
  const rows = await store.read.selectFrom("runs").select("id").where("ended_at", "is", null).execute();
  return rows.length;
}

test("whatever starts a run counts against the runs that its key may have at once", async () => {
  await using agent = await limitedAgent(1);
  const { sessionId } = await agent.submit("first", { id: "one" });
  const ways: Readonly<Record<string, () => Promise<unknown>>> = {
    "a prompt": () => agent.submit("second"),
    "a prompt in the background": () => agent.core.background(sessionId, "tester", "beside"),
  };
  for (const [what, start] of Object.entries(ways)) await assert.rejects(start, refused, what);
  assert.equal(await countAtWork(agent), 1);
  await agent.submit("of another key", { address: { owner: "other" } });
});

test("a compression on request is a run of the key", async () => {
  await using agent = await limitedAgent(1);
  const saved = await agent.core.deps.store.write(async (tx) => {
    const { newSession } = await import("../../../src/agent/session/session.ts");
    const row = newSession({ owner: "tester", id: "talk" }, { source: "test" }, tx.nowMs);
    await tx.insert("sessions", [row]);
    return row;
  });
  await agent.submit("first", { id: "one" });
  await assert.rejects(agent.core.compress(saved.id, "tester"), refused);
});

test("what webhooks and scheduled jobs start comes by no key: it is neither refused nor counted", async () => {
  await using agent = await limitedAgent(1);
  const input = {
    prompt: [{ role: "user", text: "an event" } as const],
    settings: {},
    answerable: false,
    slot: { group: "webhook:x" },
  };
  const delivery = JSON.stringify({ targets: [] });
  for (let n = 0; n < 3; n++) await agent.submit("", { input, delivery });
  const { status } = await agent.submit("of the key");
  assert.equal(status, "running");
  await agent.submit("", { input, delivery });
  await assert.rejects(agent.submit("one too many"), refused);
});

test("a run that waits for a permit counts against its key, and no more start than the key may have", async () => {
  await using agent = await limitedAgent(1, { settings: { maxConcurrentRuns: 1 } });
  await agent.submit("of another key", { address: { owner: "other" } });
  const waiting = (text: string) => {
    const prompt = [{ role: "user", text } as const];
    return agent.submit(text, {
      input: { prompt, settings: {}, answerable: false, slot: { group: "host" } },
    });
  };
  assert.equal((await waiting("first")).status, "queued");
  await assert.rejects(waiting("second"), refused);
});

test("replicas on one database let no more runs of a key through together than it may have", async () => {
  await using agent = await limitedAgent(3);
  await using replica = await limitedAgent(3, { database: agent.databaseUrl });
  // Both open a transaction before either commits, again and again.
  for (let round = 0; round < 10; round++) {
    await Promise.allSettled([agent.submit("here"), replica.submit("there")]);
  }
  assert.equal(await countAtWork(agent), 3);
});

test("with one run allowed, prompts to the key's own busy session queue, steer and interrupt", async () => {
  await using agent = await limitedAgent(1);
  const first = await agent.submit("first", { id: "one" });
  const statusOf = async (whenBusy: "queue" | "steer" | "interrupt") =>
    (await agent.submit("more", { id: "one", whenBusy })).status;
  assert.equal(await statusOf("queue"), "queued");
  assert.equal(await statusOf("steer"), "steered");
  assert.equal(await statusOf("interrupt"), "queued");
  assert.equal((await agent.events(first.runId)).at(-1)?.type, "run.cancelled");
  await assert.rejects(agent.submit("elsewhere", { id: "two" }), refused);
});
