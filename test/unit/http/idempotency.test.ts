import assert from "node:assert/strict";
import { test } from "node:test";
import { serialize } from "../../../src/http/prompt/submission.ts";
import { openTestStore } from "../../harness/store.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const claim = (key: string) => ({ scope: "s", key, fingerprint: "f" });

test("work of one key runs one after the other, even after a failure; other keys do not wait", async (t) => {
  await using _ = watchUnhandled();
  const { store } = await openTestStore(t);
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = serialize(store, claim("a"), async () => {
    await gate.promise;
    order.push("first");
    throw new Error("failed");
  });
  const second = serialize(store, claim("a"), async () => order.push("second"));
  const third = serialize(store, claim("a"), async () => order.push("third"));
  await serialize(store, claim("b"), async () => order.push("other"));
  await serialize(store, undefined, async () => order.push("without"));
  gate.resolve();
  await assert.rejects(first, /failed/);
  await Promise.all([second, third]);
  assert.deepEqual(order, ["other", "without", "first", "second", "third"]);
});
