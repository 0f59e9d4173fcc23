import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_RETRY_DELAYS_MS, retryDelayMs } from "../../../src/deliver/outbox/outcome.ts";

test("waits are those of the list and up to a tenth more, the last of them for all that follow", () => {
  const delaysMs = DEFAULT_RETRY_DELAYS_MS;
  const waits = (random: number) =>
    [1, 2, 3, 4, 50].map((attempt) => retryDelayMs(attempt, { delaysMs, random: () => random }));
  assert.deepEqual(waits(0), [60_000, 300_000, 1_800_000, 1_800_000, 1_800_000]);
  assert.deepEqual(waits(1), [66_000, 330_000, 1_980_000, 1_980_000, 1_980_000]);
});

test("without a list what has to wait all the same waits a minute", () => {
  assert.equal(retryDelayMs(1, { delaysMs: [], random: () => 0 }), 60_000);
});
