import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcurrencyLimit } from "../../../src/agent/run/concurrency.ts";
import { ServiceError } from "../../../src/base/errors.ts";

const gateOf = (max: number, onRelease = () => {}) => new ConcurrencyLimit({ max, onRelease });
const isTooMany = (error: unknown) =>
  error instanceof ServiceError && error.code === "too_many_concurrent_runs";

test("without a limit everything starts", () => {
  const gate = gateOf(0);
  for (let i = 0; i < 5_000; i++) assert.equal(gate.admit(undefined).waits, false);
});

test("at the limit of all a run without a slot is refused, one with a slot waits", () => {
  const gate = gateOf(1);
  const first = gate.admit(undefined);
  assert.throws(() => gate.admit(undefined), isTooMany);
  assert.equal(gate.admit({ group: "a" }).waits, true);
  first.release();
  assert.equal(gate.admit(undefined).waits, false);
});

test("a group has its own limit, and others pass it by", () => {
  const gate = gateOf(0);
  const slot = { group: "a", max: 2 };
  assert.deepEqual(
    [1, 2, 3].map(() => gate.admit(slot).waits),
    [false, false, true],
  );
  assert.equal(gate.admit({ group: "b", max: 1 }).waits, false);
  assert.equal(gate.admit(undefined).waits, false);
});

test("the longest waiting run within its limit is next; releasing a permit twice counts once", () => {
  let calls = 0;
  const gate = gateOf(0, () => calls++);
  const [a, b] = [gate.admit({ group: "a", max: 1 }), gate.admit({ group: "b", max: 1 })];
  gate.wait("a1", { group: "a", max: 1 });
  gate.wait("b1", { group: "b", max: 1 });
  gate.wait("b2", { group: "b", max: 1 });
  assert.equal(gate.next(), undefined);
  b.release();
  b.release();
  assert.equal(calls, 1);
  const next = gate.next();
  assert.equal(next?.sessionId, "b1");
  assert.equal(gate.next(), undefined);
  next.permit.release();
  a.release();
  assert.deepEqual([gate.next()?.sessionId, gate.next()?.sessionId, gate.next()], ["a1", "b2", undefined]);
  assert.equal(gate.waiting, 0);
});

test("what waits has an end", () => {
  const gate = gateOf(1);
  gate.admit(undefined);
  for (let i = 0; i < 1_000; i++) gate.wait(`s${i}`, { group: "a" });
  assert.throws(() => gate.admit({ group: "a" }), isTooMany);
  assert.equal(gate.takeAll().length, 1_000);
  assert.equal(gate.waiting, 0);
});
