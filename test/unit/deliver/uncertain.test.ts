import assert from "node:assert/strict";
import { test } from "node:test";
import { staleUncertainty, repeatMark } from "../../../src/deliver/target.ts";

const chat = { title: "Chat", windowMs: 60_000 };
const at = (nowMs: number, index = 0) => ({ index, nowMs });
const doubted = { uncertainSinceMs: 1_000, partsSent: 0 };

test("what may have arrived is sent again as long as the platform tells repeats, counted from the first time", () => {
  assert.equal(staleUncertainty(chat, doubted, at(61_000)), undefined);
  const late = staleUncertainty(chat, doubted, at(61_001));
  assert.equal(late?.status === "unknown" && late.isFinal, true);
  assert.match((late as { error: string }).error, /may have arrived.*outbox retry/);
});

test("without a doubt it is sent, however late", () => {
  assert.equal(staleUncertainty(chat, { partsSent: 0 }, at(1e12)), undefined);
});

test("where repeats are never told apart a doubt is enough", () => {
  assert.equal(staleUncertainty({ ...chat, windowMs: 0 }, doubted, at(1_000))?.status, "unknown");
});

test("the doubt is of the first part that is not known to have arrived", () => {
  const second = { uncertainSinceMs: 1_000, partsSent: 1 };
  assert.equal(staleUncertainty(chat, second, at(1e9, 1))?.status, "unknown");
  assert.equal(staleUncertainty(chat, second, at(1e9, 2)), undefined);
});

test("the mark of a part fits, is always the same, and is another for each part and message", () => {
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
