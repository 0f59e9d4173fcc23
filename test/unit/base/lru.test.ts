import assert from "node:assert/strict";
import { test } from "node:test";
import { LruMap, Memo } from "../../../src/base/data.ts";

test("a full map evicts the entry that was used longest ago", () => {
  const map = new LruMap<string, number | undefined>(2);
  map.set("a", 1);
  map.set("b", undefined);
  assert.equal(map.get("a"), 1);
  map.set("c", 3);
  assert.deepEqual([map.has("a"), map.has("b"), map.has("c")], [true, false, true]);
  assert.equal(map.delete("a"), true);
  assert.equal(map.get("a"), undefined);
});

test("looking whether a key exists does not count as use", () => {
  const map = new LruMap<string, number>(1);
  map.set("a", 1);
  assert.equal(map.has("a"), true);
  map.set("b", 2);
  assert.deepEqual([map.has("a"), map.has("b")], [false, true]);
});

test("concurrent callers share one computation per version, and a failure is not remembered", async () => {
  const memo = new Memo<number>(10);
  let runs = 0;
  const compute = async () => (runs += 1);
  assert.deepEqual(await Promise.all([memo.get("k", "1", compute), memo.get("k", "1", compute)]), [1, 1]);
  assert.equal(await memo.get("k", "2", compute), 2);
  await assert.rejects(
    memo.get("k", "3", () => Promise.reject(new Error("no"))),
    /no/,
  );
  assert.equal(await memo.get("k", "3", compute), 3);
});
