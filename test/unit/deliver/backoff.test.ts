import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_RETRY_DELAYS_MS, retryDelayMs } from "../../../src/deliver/outbox/attempt.ts";

test("delays are those of the list plus up to a tenth, and the last one repeats", () => {
  const delaysMs = DEFAULT_RETRY_DELAYS_MS;
  const waits = (random: number) =>
    [1, 2, 3, 4, 50].map((attempt) => retryDelayMs(attempt, { delaysMs, random: () => random }));
  assert.deepEqual(waits(0), [60_000, 300_000, 1_800_000, 1_800_000, 1_800_000]);
  assert.deepEqual(waits(1), [66_000, 330_000, 1_980_000, 1_980_000, 1_980_000]);
});

test("without a list the delay is a minute", () => {
  assert.equal(retryDelayMs(1, { delaysMs: [], random: () => 0 }), 60_000);
});
