import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";
import { openTestStore } from "../../harness/store.ts";
import { seed } from "./rows.ts";

test("a read ends with the event that reaches its bytes, in UTF-8, whatever its page may hold", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const data = ["a".repeat(1_000), "€".repeat(1_000), "b".repeat(100_000), "c"].map((text) => ({ text }));
  const events = data.map((each) => ({ type: "message.delta", runId, data: each }));
  await store.write((tx) => store.journal.append(tx, sessionId, events));
  const counts = (maxBytes: number, after = 0) =>
    [{ sessionId }, { runId }].map(
      async (scope) => (await store.journal.read(scope, { after, maxBytes })).length,
    );
  for (const [maxBytes, count] of [
    [1, 1],
    [1_000, 1],
    [1_100, 2],
    [4_000, 2],
    [4_100, 3],
    [104_000, 3],
    [200_000, 4],
  ] as const) {
    assert.deepEqual(await Promise.all(counts(maxBytes)), [count, count], `${maxBytes} bytes`);
  }
  assert.deepEqual(await Promise.all(counts(1, 2)), [1, 1], "one event at least");
  assert.deepEqual(await Promise.all(counts(1, 4)), [0, 0]);
});

test("a reader that pauses in a long run buffers little of it, and later reads all of it", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const delta = "x".repeat(10_000);
  const piece = { type: "message.delta", runId, data: { delta } };
  for (let batch = 0; batch < 10; batch += 1) {
    await store.write((tx) =>
      store.journal.append(
        tx,
        sessionId,
        Array.from({ length: 50 }, () => piece),
      ),
    );
  }
  const readers = Array.from({ length: 40 }, () => store.journal.follow({ runId })[Symbol.asyncIterator]());
  const firsts = await Promise.all(readers.map((reader) => reader.next()));
  for (const { value } of firsts) assert.equal((value as readonly unknown[]).length, 1, "one event at once");
  assert.ok(store.readers.usedBytes < 200_000, `${store.readers.usedBytes} bytes are held for 40 readers`);
  for (const reader of readers) {
    let last = 1;
    while (last < 500) {
      const { value } = (await reader.next()) as { value: readonly JournalEvent[] };
      for (const event of value) assert.equal(event.runSeq, ++last);
    }
    await reader.return?.();
  }
  assert.equal(store.readers.usedBytes, 0);
});
