import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRetryAfter } from "../../../src/base/net/fetch.ts";

const nowMs = Date.UTC(2026, 0, 1);

test("Retry-After is seconds or a date, and at most a day", () => {
  assert.equal(parseRetryAfter("3", nowMs), 3_000);
  assert.equal(parseRetryAfter(" 0.5 ", nowMs), 500);
  assert.equal(parseRetryAfter("0", nowMs), 0);
  assert.equal(parseRetryAfter("Thu, 01 Jan 2026 00:01:00 GMT", nowMs), 60_000);
  assert.equal(parseRetryAfter("Wed, 31 Dec 2025 23:00:00 GMT", nowMs), 0);
  assert.equal(parseRetryAfter("999999999", nowMs), 86_400_000);
});

test("other values count as absent", () => {
  for (const text of [undefined, "", "-1", "soon", "1e3", "tomorrow GMT", "2026-01-01", "9".repeat(20)])
    assert.equal(parseRetryAfter(text, nowMs), undefined, text);
});
