import assert from "node:assert/strict";
import { test } from "node:test";
import { zeroUsage } from "../../../src/agent/usage/usage.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { createTestAgent } from "../../harness/agent.ts";
import { unnamed } from "../../harness/unnamed.ts";

const isCode = (code: string) => (error: unknown) => error instanceof ServiceError && error.code === code;

test("a prompt is recorded with its run, session and messages before submit resolves", async () => {
  const never = Promise.withResolvers<never>();
  await using agent = await createTestAgent({
    script: ({ signal }) => {
      signal.addEventListener("abort", () => never.reject(signal.reason));
      return never.promise;
    },
  });
  const { runId, sessionId, status } = await agent.submit("hi");
  assert.equal(status, "running");
  assert.equal((await agent.run(runId)).status, "running");
  assert.equal((await agent.session(sessionId)).lease_owner, agent.store.owner);
  const messages = await agent.store.read.selectFrom("messages").selectAll().execute();
  assert.deepEqual(
    messages.map(({ role, seq }) => [role, seq]),
    [["user", 1]],
  );
  const events = await agent.store.journal.read({ runId });
  assert.deepEqual(events.map(({ type }) => type).slice(0, 2), ["run.queued", "run.started"]);
});

test("a finished run leaves its transcript, its usage and the session free", async () => {
  await using agent = await createTestAgent({ script: () => ({ text: "hello there" }) });
  const { runId, sessionId } = await agent.submit("hi");
  await agent.events(runId);
  const run = await agent.run(runId);
  assert.equal(run.status, "completed");
  assert.equal(run.output, "hello there");
  assert.equal(JSON.parse(run.usage!).output_tokens, 3);
  const session = await agent.session(sessionId);
  assert.equal(session.lease_owner, null);
  assert.equal(session.last_seq, 6);
  const messages = await agent.store.read.selectFrom("messages").select("content").orderBy("seq").execute();
  assert.deepEqual(
    messages.map(({ content }) => unnamed(JSON.parse(content))),
    [
      { role: "user", text: "hi" },
      { role: "assistant", parts: [{ type: "text", text: "hello there" }] },
    ],
  );
});

test("prompts to one session run one after the other, in the order they came", async () => {
  let atWork = 0;
  const order: string[] = [];
  const allCame = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async ({ user }) => {
      assert.equal(++atWork, 1);
      order.push(user);
      await allCame.promise;
      await agent.store.read.selectFrom("runs").select("id").execute();
      atWork--;
      return { text: user };
    },
  });
  const runs = [];
  for (const text of ["1", "2", "3", "4", "5"]) runs.push(await agent.submit(text, { id: "s" }));
  assert.equal((await agent.session("s")).queued, 4);
  allCame.resolve();
  for (const { runId } of runs) await agent.events(runId);
  assert.deepEqual(order, ["1", "2", "3", "4", "5"]);
  const session = await agent.session("s");
  assert.equal(session.queued, 0);
  assert.equal(session.lease_owner, null);
});

test("prompts to different sessions run at the same time", async () => {
  const both = Promise.withResolvers<void>();
  let waiting = 0;
  await using agent = await createTestAgent({
    script: async () => {
      if (++waiting === 2) both.resolve();
      await both.promise;
      return { text: "ok" };
    },
  });
  const runs = await Promise.all([agent.submit("a", { id: "a" }), agent.submit("b", { id: "b" })]);
  for (const { runId } of runs) assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
});

test("the first prompts to a session that does not exist yet make one session", async () => {
  await using agent = await createTestAgent();
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, i) => agent.submit(String(i), { id: "same" })),
  );
  for (const { runId } of all) await agent.events(runId);
  const sessions = await agent.store.read.selectFrom("sessions").select("id").execute();
  assert.deepEqual(sessions, [{ id: "same" }]);
});

test("a busy session refuses where the prompt says so, and nothing of the refused prompt stays", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  const first = await agent.submit("1", { id: "s" });
  await assert.rejects(agent.submit("2", { id: "s", whenBusy: "reject" }), isCode("session_busy"));
  gate.resolve();
  await agent.events(first.runId);
  assert.equal((await agent.store.read.selectFrom("runs").select("id").execute()).length, 1);
});

test("the queue of a session has an end", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    settings: { maxQueuePerSession: 2 },
    script: async () => (await gate.promise, { text: "ok" }),
  });
  const runs = [];
  for (const text of ["1", "2", "3"]) runs.push(await agent.submit(text, { id: "s" }));
  await assert.rejects(agent.submit("4", { id: "s" }), isCode("queue_full"));
  assert.equal((await agent.session("s")).queued, 2);
  gate.resolve();
  for (const { runId } of runs) assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
});

test("a steered prompt joins the turn at its next step", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async ({ step, user }) => {
      if (step > 0) return { text: `then: ${user}` };
      await gate.promise;
      return { text: "first" };
    },
  });
  const first = await agent.submit("1", { id: "s" });
  const second = await agent.submit("also this", { id: "s", whenBusy: "steer" });
  assert.deepEqual([second.status, second.runId], ["steered", first.runId]);
  gate.resolve();
  const events = await agent.events(first.runId);
  assert.equal(events.find(({ type }) => type === "run.steered")?.data["text"], "also this");
  assert.equal(events.at(-1)?.data["output"], "then: also this");
});

test("a running run stops through stopping to cancelled, and keeps what it said", async () => {
  await using agent = await createTestAgent({ script: ({ signal }) => ({ text: untilAborted(signal) }) });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.event(runId, "message.delta");
  assert.equal(await agent.runs.stop(runId, "enough"), true);
  const types = (await agent.events(runId)).map(({ type }) => type);
  assert.equal(types.at(-1), "run.cancelled");
  assert.ok(types.includes("message.completed"), "a message that began is closed");
  const run = await agent.run(runId);
  assert.deepEqual([run.status, run.stop_requested], ["cancelled", 1]);
  const last = await agent.store.read
    .selectFrom("messages")
    .select("content")
    .orderBy("seq", "desc")
    .executeTakeFirst();
  assert.equal(JSON.parse(last!.content).interrupted, true);
  assert.equal(await agent.runs.stop(runId, "again"), false, "an ended run stays as it is");
});

test("a queued run is cancelled at once, and the queue continues without it", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async ({ user }) => (await gate.promise, { text: user }),
  });
  const [a, b, c] = [
    await agent.submit("a", { id: "s" }),
    await agent.submit("b", { id: "s" }),
    await agent.submit("c", { id: "s" }),
  ];
  assert.equal(await agent.runs.stop(b.runId, "no longer needed"), true);
  assert.equal((await agent.run(b.runId)).status, "cancelled");
  gate.resolve();
  assert.equal((await agent.events(a.runId)).at(-1)?.type, "run.completed");
  assert.equal((await agent.events(c.runId)).at(-1)?.type, "run.completed");
  assert.deepEqual(
    (await agent.events(b.runId)).map(({ type }) => type),
    ["run.queued", "run.cancelled"],
  );
});

test("an engine that rejects ends its run as failed, logged, and the session continues", async () => {
  let calls = 0;
  await using agent = await createTestAgent({
    engine: {
      name: "broken",
      runTurn: async (turn) => {
        if (calls++ === 0) throw new Error("bug");
        return { stop: "end", text: turn.runId, usage: zeroUsage };
      },
    },
  });
  const first = await agent.submit("a", { id: "s" });
  const final = (await agent.events(first.runId)).at(-1);
  assert.equal((final!.data["error"] as { code: string }).code, "internal_error");
  assert.ok(agent.logLines.some((line) => line.includes("bug") && line.includes(first.runId)));
  const second = await agent.submit("b", { id: "s" });
  assert.equal((await agent.events(second.runId)).at(-1)?.type, "run.completed");
});

test("deltas that come quickly are merged before they are appended; the first goes at once", async () => {
  const many = Array.from({ length: 500 }, (_, i) => `${i} `);
  await using agent = await createTestAgent({ script: () => ({ text: paced(many) }) });
  const { runId } = await agent.submit("go");
  const deltas = (await agent.events(runId)).filter(({ type }) => type === "message.delta");
  assert.equal(deltas.map(({ data }) => data["delta"]).join(""), many.join(""));
  assert.ok(deltas.length < many.length / 2, `${deltas.length} deltas were appended`);
  assert.match(deltas[0]?.data["delta"] as string, /^0 /);
});

test("draining refuses prompts, waits for the running turn, and leaves queued runs for the next start", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  const [a, b] = [await agent.submit("a", { id: "s" }), await agent.submit("b", { id: "s" })];
  const drained = agent.runs.drain(60_000);
  await assert.rejects(agent.submit("c"), isCode("server_draining"));
  gate.resolve();
  await drained;
  assert.equal((await agent.run(a.runId)).status, "completed");
  assert.equal((await agent.run(b.runId)).status, "queued");
  await using next = await createTestAgent({ database: agent.databaseUrl });
  await next.recovery.start();
  assert.equal((await next.events(b.runId)).at(-1)?.type, "run.completed");
});

test("a drain whose grace is over cuts the turn, which ends as interrupted", async () => {
  await using agent = await createTestAgent({ script: ({ signal }) => ({ text: untilAborted(signal) }) });
  const { runId } = await agent.submit("go");
  await agent.event(runId, "message.delta");
  await agent.runs.drain(0);
  assert.equal((await agent.run(runId)).status, "interrupted");
});

test("a session made for one request becomes a conversation when it is spoken to again", async () => {
  await using agent = await createTestAgent();
  const first = await agent.submit("one");
  await agent.events(first.runId);
  assert.equal((await agent.session(first.sessionId)).transient, 1);
  const second = await agent.submit("two", { id: first.sessionId });
  await agent.events(second.runId);
  assert.equal((await agent.session(first.sessionId)).transient, 0);
});

test("a model of the session is used when the prompt names none", async () => {
  await using agent = await createTestAgent();
  const first = await agent.submit("a", { id: "s", model: { provider: "demo", id: "demo" } });
  assert.equal(first.model, "demo:demo");
  assert.equal((await agent.run(first.runId)).model, "demo:demo");
});

async function* untilAborted(signal: AbortSignal): AsyncGenerator<string> {
  yield "partial";
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

/** Each piece in a macrotask of its own, as from a network. */
async function* paced(pieces: readonly string[]): AsyncGenerator<string> {
  for (const piece of pieces) {
    yield piece;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
