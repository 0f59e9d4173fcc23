/** What the status of an answer means where the platform says nothing more telling. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { outcomeOfAnswer } from "../../../src/deliver/platform/call.ts";

const of = (status: number, more: { readonly retryAfterMs?: number; readonly text?: string } = {}) => {
  const answer = {
    kind: "answer",
    status,
    headers: {},
    body: undefined,
    text: "",
    retryAfterMs: undefined,
  } as const;
  return outcomeOfAnswer({ ...answer, ...more }, { title: "Telegram", name: "telegram" });
};

test("a gateway timeout is unknown: the message may have arrived", () => {
  for (const status of [504, 524]) {
    assert.deepEqual(of(status), {
      status: "unknown",
      error: `Telegram answered ${status}. The message may have arrived.`,
      baseError: `Telegram answered ${status}.`,
    });
  }
});

test("temporary statuses are retried, and permanent ones are not", () => {
  for (const status of [408, 425, 500, 502, 503, 599])
    assert.equal(of(status).status, "retry", String(status));
  assert.deepEqual(of(503, { retryAfterMs: 7_000 }), {
    status: "retry",
    error: "Telegram answered 503.",
    afterMs: 7_000,
  });
  assert.equal((of(429) as { isThrottled?: boolean }).isThrottled, true);
  for (const status of [300, 304, 400, 401, 403, 404, 410, 413, 422]) {
    assert.equal(of(status).status, "permanent", String(status));
  }
  assert.deepEqual([of(200).status, of(200, { text: "<!doctype html>" }).status], ["unknown", "retry"]);
});
