import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_LINE_CHARACTERS, toLine } from "../../../src/chat/run-json.ts";
import type { GatewayEvent } from "../../../src/client/gateway.ts";

const delta = (text: string): GatewayEvent => ({
  type: "message.delta",
  session_id: "s",
  seq: 1,
  ts: 0,
  payload: { text },
});

test("an event is one line, whatever its text contains, and reads back as it was", () => {
  const event = delta('a\r\nb\u2028c\u2029d\u001b]0;title\u0007\u009b31m\u202e"\\\ud83d\ude00');
  const line = toLine(event);
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  assert.match(line, /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]+\n$/);
  assert.deepEqual(JSON.parse(line), event);
});

test("a line that would be too long has shorter texts and says so", () => {
  const line = toLine(delta("x".repeat(3 * MAX_LINE_CHARACTERS)));
  assert.ok(line.length <= MAX_LINE_CHARACTERS, String(line.length));
  const { truncated, payload } = JSON.parse(line) as { truncated: boolean; payload: { text: string } };
  assert.deepEqual([truncated, payload.text.length], [true, 65_536]);
  const many = { ...delta(""), payload: { text: "", list: Array.from({ length: 400_000 }, () => "abc") } };
  const empty = toLine(many as GatewayEvent);
  assert.ok(empty.length <= MAX_LINE_CHARACTERS, String(empty.length));
  assert.deepEqual((JSON.parse(empty) as { payload: object }).payload, {});
});
