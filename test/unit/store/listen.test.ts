import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";
import { Followers } from "../../../src/store/journal/follow.ts";
import type { Heard } from "../../../src/store/journal/listen.ts";
import { ReaderBudget } from "../../../src/store/journal/reader-budget.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { seed } from "./rows.ts";

const types = ["stop", "steer"];

test("a listener hears the events of its types from the first on, once, also those of another process", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const { sessionId, runId } = await seed(store);
  const append = (to: Store, ...kinds: readonly string[]) => {
    const events = kinds.map((type, at) => ({ type, runId, data: { at } }));
    return to.write((tx) => to.journal.append(tx, sessionId, events));
  };
  await append(store, "delta", "steer", "delta");
  const heard: string[] = [];
  const heardAll = Promise.withResolvers<void>();
  const listener = store.journal.listen(runId, {
    types,
    onEvent: ({ type, runSeq }) => {
      heard.push(`${type} ${runSeq}`);
      if (type === "stop") heardAll.resolve();
    },
    onFailure: heardAll.reject,
  });
  await append(store, "steer", "delta");
  await append(other, "delta", "steer");
  await append(store, "delta", "steer");
  await append(other, "stop");
  // Watching for other processes does not keep this one alive.
  const awake = setInterval(() => {}, 1_000);
  await heardAll.promise.finally(() => clearInterval(awake));
  assert.deepEqual(heard, ["steer 2", "steer 4", "steer 7", "steer 9", "stop 10"]);
  assert.equal(listener.upTo, 10);
  listener.end();
  await append(store, "steer");
  assert.equal(heard.length, 5, "it has ended");
});

test("a listener neither reads nor holds events of other types, however long they are", async () => {
  const { followers, reads, budget } = open();
  const heard: number[] = [];
  const listener = followers.listen("run_1", {
    types,
    onEvent: ({ runSeq }) => void heard.push(runSeq ?? 0),
    onFailure: assert.fail,
  });
  reads.shift()?.answer({ events: [], upTo: 0 });
  await turn();
  const text = "x".repeat(1_048_576);
  for (let seq = 1; seq <= 50; seq += 1)
    followers.publish("s", [event(seq, seq === 40 ? "steer" : "delta", text)]);
  assert.deepEqual(heard, [40]);
  assert.deepEqual([listener.upTo, reads.length, budget.usedBytes], [50, 0, 0]);
});

test("what a listener was not offered, it reads, and what comes meanwhile is neither lost nor repeated", async () => {
  const { followers, reads } = open();
  const heard: number[] = [];
  followers.listen("run_1", {
    types,
    onEvent: ({ runSeq }) => void heard.push(runSeq ?? 0),
    onFailure: assert.fail,
  });
  reads.shift()?.answer({ events: [], upTo: 0 });
  await turn();
  followers.publish("s", [event(3, "steer")]);
  followers.publish("s", [event(4, "steer")]);
  assert.deepEqual(
    reads.map(({ after }) => after),
    [0],
  );
  reads.shift()?.answer({ events: [event(1, "steer"), event(3, "steer")], upTo: 3 });
  await turn();
  reads.shift()?.answer({ events: [event(4, "steer")], upTo: 4 });
  await turn();
  followers.publish("s", [event(5, "stop")]);
  assert.deepEqual(heard, [1, 3, 4, 5]);
  assert.equal(reads.length, 0);
});

test("a listener whose read fails says so once and ends, unless the store closed under it", async () => {
  const failures: unknown[] = [];
  const listen = (followers: Followers) =>
    followers.listen("run_1", {
      types,
      onEvent: () => assert.fail(),
      onFailure: (error) => void failures.push(error),
    });
  const one = open();
  listen(one.followers);
  one.reads.shift()?.fail(new Error("the disk is away"));
  await turn();
  assert.equal(failures.length, 1);
  assert.equal(one.watching.size, 0, "nobody listens any more");
  one.followers.publish("s", [event(1, "stop")]);
  const two = open();
  listen(two.followers);
  two.followers.close();
  two.reads.shift()?.fail(new Error("the database is closed"));
  await turn();
  assert.equal(failures.length, 1);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

function event(seq: number, type: string, text = ""): JournalEvent {
  return { sessionId: "s", seq, runId: "run_1", runSeq: seq, type, data: { text }, atMs: 0 };
}

/** Followers whose reads the test answers, one by one. */
function open() {
  const reads: { after: number; answer: (heard: Heard) => void; fail: (error: Error) => void }[] = [];
  const budget = new ReaderBudget();
  const watching = new Set<unknown>();
  const followers = new Followers({
    read: () => assert.fail("no page is read"),
    hear: (_runId, _types, after) => {
      const { promise, resolve: answer, reject: fail } = Promise.withResolvers<Heard>();
      reads.push({ after, answer, fail });
      return promise;
    },
    budget,
    watch: (wake) => {
      watching.add(wake);
      return () => watching.delete(wake);
    },
  });
  return { followers, reads, budget, watching };
}
