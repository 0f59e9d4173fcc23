import assert from "node:assert/strict";
import { test } from "node:test";
import { staleUncertainty, repeatMark } from "../../../src/deliver/target.ts";

const chat = { title: "Chat", windowMs: 60_000 };
const at = (nowMs: number, index = 0) => ({ index, nowMs });
const doubted = { uncertainSinceMs: 1_000, partsSent: 0 };

test("an uncertain part is sent again within the platform's deduplication window, counted from the first attempt", () => {
  assert.equal(staleUncertainty(chat, doubted, at(61_000)), undefined);
  const late = staleUncertainty(chat, doubted, at(61_001));
  assert.equal(late?.status === "unknown" && late.isFinal, true);
  assert.match((late as { error: string }).error, /may have arrived.*outbox retry/);
});

test("a part without an uncertain attempt is sent, however late", () => {
  assert.equal(staleUncertainty(chat, { partsSent: 0 }, at(1e12)), undefined);
});

test("without deduplication any uncertain attempt is final", () => {
  assert.equal(staleUncertainty({ ...chat, windowMs: 0 }, doubted, at(1_000))?.status, "unknown");
});

test("the uncertainty concerns the first unconfirmed part", () => {
  const second = { uncertainSinceMs: 1_000, partsSent: 1 };
  assert.equal(staleUncertainty(chat, second, at(1e9, 1))?.status, "unknown");
  assert.equal(staleUncertainty(chat, second, at(1e9, 2)), undefined);
});

test("the idempotency key of a part is stable, short enough, and unique per part and message", () => {
  const id = "out_01jd0a1b2c3d4e5f6g7h8j9kmn";
  assert.equal(repeatMark({ id }, 3, 50), `${id}.3`);
  const marks = [0, 1, 2].flatMap((part) => [
    repeatMark({ id }, part, 25),
    repeatMark({ id: `${id}x` }, part, 25),
  ]);
  assert.ok(marks.every((mark) => mark.length === 25));
  assert.equal(new Set(marks).size, 6);
  assert.equal(repeatMark({ id }, 0, 25), marks[0]);
});
