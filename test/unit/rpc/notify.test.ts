import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { Script, ScriptStep } from "../../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestGateway, essence, type TestHost } from "../../harness/rpc-host.ts";

const quiet = testTool(async ({ command }, { progress }) => {
  progress(`${command} goes on`);
  return `${command} is done`;
});

function numbered(events: readonly GatewayEvent[]): readonly number[] {
  return events.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));
}

/** The order rules of a turn, over everything a host heard of one session. */
function assertOrder(all: readonly GatewayEvent[]): void {
  const events = all.filter(({ type }) => type !== "gateway.ready");
  let expected = (numbered(events)[0] ?? 1) - 1;
  let turn: string | undefined;
  let needsInfo = false;
  const tools = new Set<string>();
  for (const event of events) {
    if (event.seq !== undefined) {
      const first = "first_seq" in event && typeof event.first_seq === "number" ? event.first_seq : event.seq;
      assert.equal(first, expected + 1, `a gap before ${event.type}`);
      expected = event.seq;
    }
    if (needsInfo) {
      assert.equal(event.type, "session.info", "session.info ends a turn");
      assert.equal((event.payload as { running: boolean }).running, false);
      needsInfo = false;
      continue;
    }
    if (event.type === "message.start") {
      assert.equal(turn, undefined, "a turn begins in a turn");
      turn = event.payload.turn_id;
    } else if (event.type === "message.complete") {
      assert.equal(event.turn_id, turn);
      assert.equal(tools.size, 0, "a tool outlives its turn");
      turn = undefined;
      needsInfo = true;
    } else if (event.type === "tool.start") {
      assert.ok(event.payload.context.length <= 80);
      tools.add(event.payload.tool_id);
    } else if (event.type === "tool.complete") {
      assert.ok(tools.delete(event.payload.tool_id), "tool.complete without its start");
    } else if (event.type === "message.delta" || event.type === "reasoning.delta") {
      assert.notEqual(turn, undefined, "a delta outside of a turn");
    }
  }
  assert.equal(turn, undefined);
}

async function converse(host: TestHost, texts: readonly string[]): Promise<string> {
  const { session_id: id } = await host.call("session.create");
  for (const text of texts) {
    const from = host.events.length;
    await host.call("prompt.submit", { session_id: id, text });
    await host.ended(from);
  }
  return id;
}

test("the submit answer precedes message.start; the turn ends with session.info", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const id = await converse(host, ["hello"]);
  const answered = host.frames.findLastIndex(({ id: of }) => of === "r2");
  const started = host.frames.findIndex(
    ({ params }) => (params as GatewayEvent | undefined)?.type === "message.start",
  );
  assert.ok(answered >= 0 && answered < started);
  assertOrder(host.events);
  const start = await host.event("message.start");
  assert.deepEqual(start.payload.input, { role: "user", text: "hello" });
  assert.match(start.payload.turn_id, /^turn_[0-9a-z]{26}$/);
  assert.equal((await host.event("message.complete")).payload.text, "done");
  assert.equal(start.session_id, id);
});

const step: fc.Arbitrary<ScriptStep> = fc.record(
  {
    reasoning: fc.string({ minLength: 1, maxLength: 8 }),
    text: fc.array(fc.string({ minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 }),
    calls: fc.array(
      fc.record({ tool: fc.constantFrom("terminal", "nothing"), input: fc.record({ command: fc.string() }) }),
      { maxLength: 3 },
    ),
    error: fc.constant({ code: "provider_error" as const, message: "The provider is away." }),
  },
  { requiredKeys: [] },
);

test("the order rules hold for any script, and any cursor resumes to the identical stream", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 4 }), async (steps) => {
      const script: Script = ({ step: at }) => steps[at] ?? { text: "end" };
      await using gateway = await createTestGateway({
        script,
        tools: [quiet],
        settings: { policyMode: "yolo" },
      });
      const host = gateway.host();
      const id = await converse(host, ["one", "two"]);
      assertOrder(host.events);
      await assertResumes(gateway, host, id);
    }),
    { numRuns: 6 },
  );
});

async function assertResumes(
  gateway: Awaited<ReturnType<typeof createTestGateway>>,
  host: TestHost,
  id: string,
): Promise<void> {
  const heard = host.events;
  const last = numbered(heard).at(-1) ?? 0;
  for (const cursor of [0, ...numbered(heard)]) {
    const other = gateway.host();
    const epoch = gateway.agent.store.epoch;
    const view = await other.call("session.resume", { session_id: id, cursor: { epoch, last_seen: cursor } });
    assert.equal(view.truncated, false);
    assert.equal(view.replayed, last - cursor);
    if (cursor < last) await other.until(() => (numbered(other.events).at(-1) === last ? true : undefined));
    await other.until(() => (other.events.at(-1)?.type === "session.info" ? true : undefined));
    const cutAt = heard.findLastIndex(({ seq }) => seq === cursor);
    // The first event after a cut may be a delta that the live stream had merged with those before it.
    assert.deepEqual(essence(other.events), essence(heard.slice(cutAt + 1)), `resumed at ${cursor}`);
    other.leave();
  }
}

test("a client that reconnects by cursor at any event of a live turn gets the same stream", async () => {
  const script: Script = ({ step: at }) =>
    at === 0
      ? {
          reasoning: "hm",
          text: ["a ", "b ", "c "],
          delayMs: 20,
          calls: [{ tool: "terminal", input: { command: "x" } }],
        }
      : { text: ["d ", "e ", "f"], delayMs: 40 };
  await using gateway = await createTestGateway({ script, tools: [quiet], settings: { policyMode: "yolo" } });
  const steady = gateway.host();
  const { session_id: id } = await steady.call("session.create");
  await steady.call("prompt.submit", { session_id: id, text: "go" });
  const heard: GatewayEvent[] = [];
  let cuts = 0;
  while (heard.at(-1)?.type !== "session.info") {
    const host = gateway.host();
    const cursor = { epoch: gateway.agent.store.epoch, last_seen: numbered(heard).at(-1) ?? 0 };
    await host.call("session.resume", { session_id: id, cursor });
    const next = await host.until(() => host.events.find(({ session_id: of }) => of === id));
    host.leave();
    heard.push(next);
    cuts++;
  }
  await steady.ended();
  assert.ok(cuts > 8, `it was cut ${cuts} times`);
  assert.deepEqual(essence(heard), essence(steady.events));
  assertOrder(heard);
});

test("a second attach with a cursor replays, one without changes nothing", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const id = await converse(host, ["one"]);
  const heard = host.events.length;
  await host.call("session.activate", { session_id: id });
  const cursor = { epoch: gateway.agent.store.epoch, last_seen: 0 };
  await Promise.all([1, 2, 3].map(() => host.call("session.activate", { session_id: id, cursor })));
  await host.ended(heard);
  const again = essence(host.events.slice(heard));
  assert.deepEqual(again.slice(-3), essence(host.events.slice(0, heard)).slice(-3));
  const from = host.events.length;
  await host.call("prompt.submit", { session_id: id, text: "two" });
  await host.ended(from);
  assert.equal(host.events.slice(from).filter(({ type }) => type === "message.start").length, 1);
});

test("a host that detached gets no more events; the session continues", async () => {
  await using gateway = await createTestGateway();
  const [host, other] = [gateway.host(), gateway.host()];
  const id = await converse(host, ["one"]);
  await other.call("session.activate", { session_id: id });
  assert.deepEqual(await host.call("session.detach", { session_id: id }), { detached: true });
  assert.deepEqual(await host.call("session.detach", { session_id: id }), { detached: false });
  const heard = host.events.length;
  await other.call("prompt.submit", { session_id: id, text: "two" });
  await other.ended();
  assert.equal(host.events.length, heard);
});

test("a session whose follower failed is followed again after a new attach", async () => {
  const gate = Promise.withResolvers<void>();
  const tools = [
    testTool(async () => {
      await gate.promise;
      return "done";
    }),
  ];
  await using gateway = await createTestGateway({
    script: callsOnce("wait"),
    tools,
    settings: { policyMode: "yolo" },
  });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "one" });
  await host.event("tool.start");
  const { store } = gateway.agent;
  const { find } = store;
  Object.assign(store, { find: async () => Promise.reject(new Error("the disk is away")) });
  gate.resolve();
  const { payload } = await host.event("error");
  assert.equal(payload.fatal, false);
  Object.assign(store, { find });
  await host.call("session.activate", { session_id: id });
  const from = host.events.length;
  await host.call("prompt.submit", { session_id: id, text: "two" });
  await host.ended(from);
});
