import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiter } from "../../../src/base/time.ts";

test("a minute begins with its first request, and a clock set back begins a new one", () => {
  const rate = new RateLimiter(1);
  assert.equal(rate.take("a", 30_000), undefined);
  assert.deepEqual(rate.take("a", 89_999), { seconds: 1, count: 1 });
  assert.deepEqual(rate.take("a", 89_999), { seconds: 1, count: 2 });
  assert.equal(rate.take("a", 90_000), undefined);
  assert.deepEqual(rate.take("a", 90_001), { seconds: 60, count: 1 });
  assert.equal(rate.take("a", 10), undefined, "set back by hours: nobody waits for them");
});

test("expired windows are dropped", () => {
  const rate = new RateLimiter(1);
  for (let at = 0; at < 5_000; at++) assert.equal(rate.take(`name-${at}`, at * 1_000), undefined);
  assert.deepEqual(rate.take("name-4999", 4_999_000), { seconds: 60, count: 1 });
});
