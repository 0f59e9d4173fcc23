import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../src/base/clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { Identity } from "../../../src/http/auth.ts";
import { RateLimit } from "../../../src/http/rate-limit.ts";

const key = (name: string, rateLimitRpm?: number): Identity => ({
  name,
  scopes: ["read"],
  authenticated: true,
  ...(rateLimitRpm === undefined ? {} : { rateLimitRpm }),
});

/** Seconds to wait, undefined for a request that is let through. */
function waitOf(limit: RateLimit, identity: Identity): number | undefined {
  try {
    limit.count(identity);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "rate_limit_exceeded");
    return error.retryAfterSeconds;
  }
}

test("a key gets its requests a minute, and is told exactly when the next one passes", () => {
  const clock = new FakeClock();
  const limit = new RateLimit(clock);
  const ci = key("ci", 3);
  assert.equal(waitOf(limit, ci), undefined);
  clock.tick(10_500);
  assert.equal(waitOf(limit, ci), undefined);
  assert.equal(waitOf(limit, ci), undefined);
  assert.equal(waitOf(limit, ci), 50);
  clock.tick(49_499);
  assert.equal(waitOf(limit, ci), 1);
  clock.tick(1);
  assert.equal(waitOf(limit, ci), undefined);
});

test("a refused request costs nothing of the next minute", () => {
  const clock = new FakeClock();
  const limit = new RateLimit(clock);
  const ci = key("ci", 1);
  assert.equal(waitOf(limit, ci), undefined);
  for (let i = 0; i < 100; i++) assert.equal(waitOf(limit, ci), 60);
  clock.tick(60_000);
  assert.equal(waitOf(limit, ci), undefined);
});

test("keys do not share, names do", () => {
  const limit = new RateLimit(new FakeClock());
  assert.equal(waitOf(limit, key("a", 1)), undefined);
  assert.equal(waitOf(limit, key("b", 1)), undefined);
  assert.equal(waitOf(limit, key("a", 1)), 60);
  assert.equal(waitOf(limit, key("a", 2)), undefined);
});

test("a key without a limit is never refused", () => {
  const limit = new RateLimit(new FakeClock());
  for (let i = 0; i < 10_000; i++) assert.equal(waitOf(limit, key("free")), undefined);
});

test("a clock that is set back does not stretch the minute", () => {
  let nowMs = 1_000_000;
  const clock = Object.assign(new FakeClock(), { now: () => nowMs });
  const limit = new RateLimit(clock);
  assert.equal(waitOf(limit, key("ci", 1)), undefined);
  nowMs -= 500_000;
  assert.equal(waitOf(limit, key("ci", 1)), undefined);
  assert.equal(waitOf(limit, key("ci", 1)), 60);
});
