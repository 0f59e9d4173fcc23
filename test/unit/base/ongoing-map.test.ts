import assert from "node:assert/strict";
import { test } from "node:test";
import v8 from "node:v8";
import vm from "node:vm";
import { OngoingMap } from "../../../src/base/time.ts";

test("a map of what is under way has the entries that were not removed, in the order in which they came", () => {
  const map = new OngoingMap<string, number | undefined>();
  for (const [index, key] of ["a", "b", "c"].entries()) map.set(key, index);
  assert.deepEqual(map.delete("b"), true);
  assert.deepEqual(map.delete("b"), false);
  map.set("d", undefined);
  map.set("a", 7);
  assert.deepEqual([...map.keys()], ["a", "c", "d"]);
  assert.deepEqual([...map.values()], [7, 2, undefined]);
  assert.deepEqual(map.size, 3);
  assert.deepEqual(
    [map.has("d"), map.get("d"), map.has("b"), map.get("b")],
    [true, undefined, false, undefined],
  );
  map.clear();
  assert.deepEqual([map.size, [...map.values()], map.get("a")], [0, [], undefined]);
  map.set("e", 8);
  assert.deepEqual(map.get("e"), 8);
});

const ROUNDS = 2_000;
const VALUE_BYTES = 8_000;

test("what left a map of what is under way does not wait for a full collection", () => {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as (options?: { readonly type: "minor" }) => void;
  const map = new OngoingMap<number, unknown>();
  const keep = 16;
  for (let at = 0; at < keep; at++) map.set(at, undefined);
  // The map is old from here on, as in a service that runs for a while.
  collect();
  collect();
  const before = v8.getHeapStatistics().used_heap_size;
  for (let at = keep; at < ROUNDS; at++) {
    map.set(
      at,
      Array.from({ length: VALUE_BYTES / 8 }, () => at),
    );
    map.delete(at - keep);
  }
  collect({ type: "minor" });
  collect({ type: "minor" });
  const grown = v8.getHeapStatistics().used_heap_size - before;
  assert.ok(grown < (ROUNDS * VALUE_BYTES) / 4, `${grown} bytes are left`);
});
