import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcurrencyLimit } from "../../../src/agent/run/session-queue.ts";
import { ServiceError } from "../../../src/base/errors.ts";

const limitOf = (max: number, onRelease = () => {}) => new ConcurrencyLimit({ max, onRelease });
const isTooMany = (error: unknown) =>
  error instanceof ServiceError && error.code === "too_many_concurrent_runs";

test("without a limit everything starts", () => {
  const limit = limitOf(0);
  for (let i = 0; i < 5_000; i++) assert.equal(limit.admit(undefined).waits, false);
});

test("at the limit of all a run without a slot is refused, one with a slot waits", () => {
  const limit = limitOf(1);
  const first = limit.admit(undefined);
  assert.throws(() => limit.admit(undefined), isTooMany);
  assert.equal(limit.admit({ group: "a" }).waits, true);
  first.release();
  assert.equal(limit.admit(undefined).waits, false);
});

test("a group has its own limit, and others pass it by", () => {
  const limit = limitOf(0);
  const slot = { group: "a", max: 2 };
  assert.deepEqual(
    [1, 2, 3].map(() => limit.admit(slot).waits),
    [false, false, true],
  );
  assert.equal(limit.admit({ group: "b", max: 1 }).waits, false);
  assert.equal(limit.admit(undefined).waits, false);
});

test("the longest waiting run within its limit is next; releasing a permit twice counts once", () => {
  let calls = 0;
  const limit = limitOf(0, () => calls++);
  const [a, b] = [limit.admit({ group: "a", max: 1 }), limit.admit({ group: "b", max: 1 })];
  limit.wait("a1", { group: "a", max: 1 });
  limit.wait("b1", { group: "b", max: 1 });
  limit.wait("b2", { group: "b", max: 1 });
  assert.equal(limit.next(), undefined);
  b.release();
  b.release();
  assert.equal(calls, 1);
  const next = limit.next();
  assert.equal(next?.sessionId, "b1");
  assert.equal(limit.next(), undefined);
  next.permit.release();
  a.release();
  assert.deepEqual([limit.next()?.sessionId, limit.next()?.sessionId, limit.next()], ["a1", "b2", undefined]);
  assert.equal(limit.waiting, 0);
});

test("what waits has an end", () => {
  const limit = limitOf(1);
  limit.admit(undefined);
  for (let i = 0; i < 1_000; i++) limit.wait(`s${i}`, { group: "a" });
  assert.throws(() => limit.admit({ group: "a" }), isTooMany);
  assert.equal(limit.takeAll().length, 1_000);
  assert.equal(limit.waiting, 0);
});
