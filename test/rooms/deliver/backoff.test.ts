import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultBackoff, retryDelayMs } from "../../../src/deliver/backoff.ts";

test("pauses grow from 2 s to 15 min, and each may be anything below its bound", () => {
  const bounds = (random: number) =>
    [1, 2, 3, 4, 5, 6, 100].map((attempt) =>
      retryDelayMs(attempt, { ...defaultBackoff, random: () => random }),
    );
  assert.deepEqual(bounds(1), [2_000, 8_000, 32_000, 128_000, 512_000, 900_000, 900_000]);
  assert.deepEqual(bounds(0.25), [500, 2_000, 8_000, 32_000, 128_000, 225_000, 225_000]);
  assert.deepEqual(new Set(bounds(0)), new Set([0]));
});
