import assert from "node:assert/strict";
import { test } from "node:test";
import type { SendOutcome, Target } from "../../../src/deliver/target.ts";
import { attemptsOf, evaluate, rulesFor, type AttemptCounts } from "../../../src/deliver/outbox/attempt.ts";

const DAY_MS = 86_400_000;
const rules = { delaysMs: [60_000, 300_000], random: () => 0 };
const target = (more: Partial<Target> = {}): Target => ({
  name: "test",
  send: async () => ({ status: "delivered" }),
  ...more,
});
const row: AttemptCounts = { attempts: 1, max_attempts: 0, created_at: 0, retried_at: null };
const on = (outcome: SendOutcome, { nowMs = 0, to = target(), tried = row } = {}) =>
  evaluate(outcome, tried, { target: to, rules, nowMs });

test("delivered and permanent outcomes are final", () => {
  assert.deepEqual(on({ status: "delivered" }), { status: "delivered" });
  assert.deepEqual(on({ status: "permanent", error: "410" }), { status: "dead", error: "410" });
});

test("a retry waits as scheduled or as the platform asks, at most a day, and after the last attempt the message is dead", () => {
  const retry = { status: "retry", error: "503" } as const;
  assert.deepEqual(on(retry), { status: "again", error: "503", delayMs: 60_000, isCounted: true });
  const second = { ...row, attempts: 2 };
  assert.deepEqual(on(retry, { tried: second }), {
    status: "again",
    error: "503",
    delayMs: 300_000,
    isCounted: true,
  });
  for (const [asked, waited] of [
    [7, 7],
    [-5, 0],
    [9 * DAY_MS, DAY_MS],
  ] as const) {
    const verdict = on({ ...retry, afterMs: asked });
    assert.equal(verdict.status === "again" && verdict.delayMs, waited);
  }
  assert.deepEqual(on(retry, { tried: { ...row, attempts: 3 } }), { status: "dead", error: "503" });
});

test("a message can have its own number of attempts, and the last delay repeats", () => {
  const retry = { status: "retry", error: "503" } as const;
  const own = { ...row, max_attempts: 9, attempts: 8 };
  const verdict = on(retry, { tried: own });
  assert.equal(verdict.status === "again" && verdict.delayMs, 300_000);
  assert.equal(on(retry, { tried: { ...own, attempts: 9 } }).status, "dead");
  assert.deepEqual([attemptsOf(own, rules), attemptsOf(row, rules)], [9, 3]);
});

test("an uncertain message is retried only with an idempotent target, and ends as unknown", () => {
  const doubt = { status: "unknown", error: "no answer" } as const;
  assert.deepEqual(on(doubt), doubt);
  const to = target({ supportsIdempotency: true });
  assert.equal(on(doubt, { to }).status, "again");
  assert.deepEqual(on({ ...doubt, isFinal: true }, { to }), doubt);
  assert.deepEqual(on(doubt, { to, tried: { ...row, attempts: 3 } }), doubt);
  assert.deepEqual(evaluate(doubt, row, { target: undefined, rules, nowMs: 0 }), doubt);
});

test("a throttled attempt does not count, waits at least a second, and ends after a day, counted again after a manual retry", () => {
  const slow = { status: "retry", error: "429", isThrottled: true } as const;
  const last = { ...row, attempts: 3 };
  const asked = { ...slow, afterMs: 0 };
  assert.deepEqual(on(asked, { tried: last }), {
    status: "again",
    error: "429",
    delayMs: 1_000,
    isCounted: false,
  });
  assert.equal(on({ ...slow, afterMs: 5_000 }, { nowMs: DAY_MS - 5_000 }).status, "again");
  const over = on({ ...slow, afterMs: 5_000 }, { nowMs: DAY_MS - 4_999 });
  assert.equal(over.status, "dead");
  assert.match("error" in over ? over.error : "", /^429 The platform throttled it for a day/);
  const retried = { ...row, retried_at: DAY_MS };
  assert.equal(on(slow, { nowMs: DAY_MS + 5, tried: retried }).status, "again");
});

test("the target's own delays take precedence over the configuration", () => {
  assert.deepEqual(rulesFor(target({ retryDelaysMs: [1, 2] }), rules).delaysMs, [1, 2]);
  assert.deepEqual(rulesFor(target({ retryDelaysMs: [] }), rules).delaysMs, []);
  assert.equal(rulesFor(target(), rules), rules);
  assert.equal(rulesFor(undefined, rules), rules);
});
