import assert from "node:assert/strict";
import { test } from "node:test";
import { createId, createSessionId } from "../../../src/base/text.ts";

const NOW = Date.UTC(2026, 6, 30, 23, 59, 59, 7);

test("an id is its prefix and 26 characters that need no escaping anywhere", () => {
  for (let i = 0; i < 1000; i++) assert.match(createId("run"), /^run_[0-9a-hjkmnp-tv-z]{26}$/);
});

test("an id made a millisecond later sorts later, over every carry", () => {
  for (const start of [0, 31, 32 ** 2 - 2, NOW - 40, 2 ** 41 - 2, 2 ** 47 - 3]) {
    let last = "";
    for (let nowMs = start; nowMs < start + 80; nowMs++) {
      const id = createId("evt", nowMs);
      assert.ok(id > last, `${id} at ${nowMs}`);
      last = id;
    }
  }
});

test("200 000 ids of one millisecond are all different", () => {
  const ids = new Set<string>();
  for (let i = 0; i < 200_000; i++) ids.add(createId("msg", NOW));
  assert.equal(ids.size, 200_000);
});

test("200 000 session ids of one millisecond are all different", () => {
  const ids = new Set<string>();
  for (let i = 0; i < 200_000; i++) ids.add(createSessionId(NOW));
  // 36 random bits: two of 200 000 are alike in one of four such sets, and never many.
  assert.ok(ids.size >= 200_000 - 8, `${ids.size}`);
});

test("a session id reads as its time and 12 hex digits, in UTC", () => {
  assert.match(createSessionId(NOW), /^20260730_235959_007[0-9a-f]{9}$/);
  assert.match(createSessionId(Date.UTC(2026, 0, 1)), /^20260101_000000_[0-9a-f]{12}$/);
});

test("session ids sort by time, also within the second", () => {
  let last = "";
  for (let nowMs = NOW - 10; nowMs < NOW + 1100; nowMs += 1) {
    const id = createSessionId(nowMs);
    assert.ok(id > last, `${id} after ${last}`);
    last = id;
  }
});

test("random parts are spread over the whole alphabet", () => {
  const seen = new Set<string>();
  for (let i = 0; i < 2000; i++) for (const letter of createId("run", NOW).slice(-16)) seen.add(letter);
  assert.equal(seen.size, 32);
});
