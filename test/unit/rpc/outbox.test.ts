import assert from "node:assert/strict";
import { test } from "node:test";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { Outbox } from "../../../src/rpc/connection/outbox.ts";
import { ReaderBudget } from "../../../src/store/journal/reader-budget.ts";
import type { Json } from "../../harness/rpc.ts";

function outbox(limits: { maxFrames?: number; maxBytes?: number; readers?: ReaderBudget } = {}) {
  const clock = new FakeClock();
  const sent: Json[] = [];
  const state = { full: false, overflows: 0 };
  const box = new Outbox({
    wire: { send: (text) => void sent.push(JSON.parse(text)), buffered: () => (state.full ? 1e9 : 0) },
    clock,
    maxFrames: 100,
    maxBytes: 1e6,
    ...limits,
    onOverflow: () => {
      state.overflows += 1;
      box.close();
    },
  });
  const texts = () => sent.map((frame) => frame.params?.payload?.text ?? frame.n);
  return { box, clock, sent, state, texts };
}

const delta = (text: string, seq: number, session = "s"): GatewayEvent => ({
  type: "message.delta",
  session_id: session,
  seq,
  ts: 0,
  turn_id: "t",
  payload: { text },
});
const control = (n: number) => JSON.stringify({ n });

test("frames are sent at once and in order while the transport accepts them", () => {
  const { box, texts } = outbox();
  box.control(control(1));
  box.event(delta("a", 1));
  box.control(control(2));
  assert.deepEqual(texts(), [1, "a", 2]);
});

test("deltas within a tick are merged, with the number of the first", () => {
  const { box, clock, sent, texts } = outbox();
  for (const [index, text] of ["a", "b", "c"].entries()) box.event(delta(text, index + 1));
  assert.deepEqual(texts(), ["a"]);
  clock.tick(33);
  assert.deepEqual(texts(), ["a", "bc"]);
  assert.equal(sent[1].params.seq, 3);
  assert.equal(sent[1].params.first_seq, 2);
});

test("a control frame flushes the deltas before it", () => {
  const { box, texts } = outbox();
  box.event(delta("a", 1));
  box.event(delta("b", 2));
  box.control(control(1));
  assert.deepEqual(texts(), ["a", "b", 1]);
});

test("deltas of two streams are not merged", () => {
  const { box, clock, texts } = outbox();
  box.event(delta("a", 1));
  box.event(delta("b", 2));
  box.event(delta("x", 1, "other"));
  box.event(delta("c", 3));
  clock.tick(100);
  assert.deepEqual(texts(), ["a", "b", "x", "c"]);
});

test("above half of the limit deltas are dropped and counted, control frames never", () => {
  const { box, state, clock, sent } = outbox({ maxFrames: 10 });
  state.full = true;
  for (let n = 0; n < 6; n++) box.control(control(n));
  box.event(delta("lost", 1));
  box.event(delta("lost", 2));
  box.control(control(6));
  state.full = false;
  clock.tick(20);
  box.event(delta("kept", 3));
  clock.tick(33);
  assert.deepEqual(
    sent.slice(0, 7).map(({ n }) => n),
    [0, 1, 2, 3, 4, 5, 6],
  );
  assert.deepEqual(sent[7].params.payload, { text: "kept", dropped: 2 });
  assert.equal(state.overflows, 0);
});

test("a delta is not dropped after the message is complete", () => {
  const { box, state, clock, sent } = outbox({ maxFrames: 4 });
  state.full = true;
  for (let n = 0; n < 3; n++) box.control(control(n));
  box.event(delta("lost", 1));
  const usage = {
    model: "m",
    input: 0,
    output: 0,
    cache_read: 0,
    cache_write: 0,
    reasoning: 0,
    prompt: 0,
    completion: 0,
    total: 0,
    calls: 0,
  };
  box.event({
    type: "message.complete",
    session_id: "s",
    ts: 0,
    payload: { text: "lost", status: "complete", usage },
  });
  state.full = false;
  clock.tick(20);
  box.event(delta("next", 5));
  clock.tick(33);
  assert.deepEqual(sent.at(-1).params.payload, { text: "next" });
});

test("exceeding the limit of frames or bytes ends the connection", () => {
  for (const limits of [{ maxFrames: 3 }, { maxBytes: 20 }]) {
    const { box, state, sent } = outbox(limits);
    state.full = true;
    for (let n = 0; n < 6; n++) box.control(control(n));
    assert.equal(state.overflows, 1);
    assert.deepEqual(sent, []);
  }
});

test("the waiting bytes of all connections are limited: the one that has not read for longest ends", () => {
  const readers = new ReaderBudget(1_000);
  const text = JSON.stringify({ n: "x".repeat(292) });
  const boxes = [outbox({ readers }), outbox({ readers }), outbox({ readers })] as const;
  for (const { box, state } of boxes) {
    state.full = true;
    box.control(text);
  }
  const [reading] = boxes;
  reading.state.full = false;
  reading.box.pump();
  reading.state.full = true;
  reading.box.control(text);
  const late = outbox({ readers });
  late.state.full = true;
  late.box.control(text);
  const overflows = [...boxes, late].map(({ state }) => state.overflows);
  assert.deepEqual(overflows, [0, 1, 0, 0], "the first has read meanwhile");
  assert.equal(readers.usedBytes, 900);
  for (const { box } of [...boxes, late]) box.close();
  assert.equal(readers.usedBytes, 0);
});

test("a writer that waits for drained() continues at half full, or when the outbox closes", async () => {
  const { box, state, clock } = outbox({ maxFrames: 10 });
  await box.drained();
  state.full = true;
  for (let n = 0; n < 8; n++) box.control(control(n));
  let isFree = false;
  const waiting = box.drained().then(() => (isFree = true));
  await Promise.resolve();
  assert.equal(isFree, false);
  state.full = false;
  clock.tick(20);
  await waiting;
  state.full = true;
  for (let n = 0; n < 8; n++) box.control(control(n));
  const last = box.drained();
  box.close();
  await last;
});

test("flush sends all waiting frames, however slow the transport is", () => {
  const { box, state, texts } = outbox();
  state.full = true;
  box.control(control(1));
  box.event(delta("a", 1));
  box.event(delta("b", 2));
  box.flush();
  assert.deepEqual(texts(), [1, "ab"]);
});

test("held events follow their release, merged, and nothing else waits for them", () => {
  const { box, texts } = outbox();
  box.hold("s");
  box.hold("s");
  box.event(delta("a", 1));
  box.event(delta("b", 2));
  box.event(delta("x", 1, "other"));
  box.control(control(1));
  box.release("s");
  assert.deepEqual(texts(), ["x", 1]);
  box.release("s");
  box.control(control(2));
  assert.deepEqual(texts(), ["x", 1, "ab", 2]);
});

test("held events count: their deltas are dropped above half, and exceeding the limit ends the connection", async () => {
  const { box, state, texts } = outbox({ maxFrames: 4 });
  const info = (seq: number): GatewayEvent => ({
    type: "session.closed",
    session_id: "s",
    seq,
    ts: 0,
    payload: { reason: "test" },
  });
  box.hold("s");
  for (let seq = 1; seq <= 3; seq++) box.event(info(seq));
  let isFree = false;
  const waiting = box.drained().then(() => (isFree = true));
  box.event(delta("lost", 4));
  await Promise.resolve();
  assert.equal(isFree, false, "who replays waits until the call was answered");
  box.release("s");
  await waiting;
  box.event(delta("kept", 5));
  assert.deepEqual(texts(), [undefined, undefined, undefined, "kept"]);
  box.hold("s");
  for (let seq = 6; seq <= 10; seq++) box.event(info(seq));
  assert.equal(state.overflows, 1);
});
