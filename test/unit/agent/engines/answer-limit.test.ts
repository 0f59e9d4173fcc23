import assert from "node:assert/strict";
import { test } from "node:test";
import { saying, type Piece } from "../../../harness/openai-server.ts";
import { startLocalEngine } from "./local-engine.ts";
import { probe } from "./turn-probe.ts";

const notice = {
  type: "notice",
  text: "The answer was cut at the limit of 1000 bytes (limits.max_answer_bytes).",
} as const;

test("an endless answer is cut at the limit, between characters, and ends by length", async () => {
  const pieces: Piece[] = [...Array.from({ length: 40 }, () => ({ text: "€".repeat(30) })), { hang: true }];
  await using local = await startLocalEngine([{ pieces }], { maxAnswerBytes: 1_000 });
  const { end, events } = await probe(local.engine);
  assert.deepEqual([end.stop, end.text], ["length", "€".repeat(333)]);
  assert.equal(end.usage.outputTokens, 250, "what the provider did not count is estimated");
  assert.deepEqual(events.at(-1), notice);
  await local.server.requests[0]?.closed;
});

test("reasoning counts too, and a single piece may exceed the limit", async () => {
  const pieces: Piece[] = [{ reasoning: "r".repeat(600) }, { text: "t".repeat(90_000) }, { hang: true }];
  await using local = await startLocalEngine([{ pieces }], { maxAnswerBytes: 1_000 });
  const { end } = await probe(local.engine);
  assert.deepEqual([end.stop, end.text], ["length", "t".repeat(400)]);
});

test("a call whose arguments exceed the limit is not made", async () => {
  const json = JSON.stringify({ city: "P".repeat(5_000) });
  const pieces: Piece[] = [
    { text: "Let me see." },
    { call: { index: 0, id: "call_1", name: "weather", arguments: "" } },
    ...Array.from({ length: 6 }, (_, at) => ({
      call: { index: 0, arguments: json.slice(at * 1_000, at * 1_000 + 1_000) },
    })),
    { finish: "tool_calls" },
  ];
  await using local = await startLocalEngine([{ pieces }], { maxAnswerBytes: 1_000 });
  const { end, calls } = await probe(local.engine);
  assert.deepEqual([end.stop, end.text, calls], ["length", "Let me see.", []]);
});

test("an answer exactly at the limit is complete", async () => {
  await using local = await startLocalEngine([saying("x".repeat(1_000))], { maxAnswerBytes: 1_000 });
  const { end, events } = await probe(local.engine);
  assert.deepEqual([end.stop, end.text.length], ["end", 1_000]);
  assert.ok(!events.some(({ type }) => type === "notice"));
});
