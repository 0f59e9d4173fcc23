import assert from "node:assert/strict";
import { test } from "node:test";
import { Followers, type Page } from "../../../src/store/journal/follow.ts";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";
import { ReaderBudget } from "../../../src/store/journal/reader-budget.ts";

const sessionId = "s";
const event = (seq: number, bytes = 0): JournalEvent => ({
  sessionId,
  seq,
  runId: null,
  runSeq: null,
  type: "x",
  data: bytes === 0 ? {} : { text: "x".repeat(bytes) },
  atMs: 0,
});
const span = (from: number, to: number, bytes = 0) =>
  Array.from({ length: to - from + 1 }, (_, i) => event(from + i, bytes));

/** A read begins in a turn of its own. */
const turns = async () => {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** Followers whose reads the test answers, one by one. */
function open(budget = new ReaderBudget()) {
  const reads: {
    after: number;
    answer: (events: readonly JournalEvent[], hasMore?: boolean) => void;
    fail: (error: Error) => void;
  }[] = [];
  const watching: ((scopes: readonly string[] | undefined) => void)[] = [];
  const followers = new Followers({
    read: (_scope, after) => {
      const { promise, resolve, reject: fail } = Promise.withResolvers<Page>();
      reads.push({ after, fail, answer: (events, hasMore = false) => resolve({ events, hasMore }) });
      return promise;
    },
    budget,
    hear: async (_runId, _types, after) => ({ events: [], upTo: after }),
    watch: (wake) => {
      watching.push(wake);
      return () => watching.splice(watching.indexOf(wake), 1);
    },
  });
  return { followers, reads, watching, events: followers.follow({ sessionId }) };
}

test("events published while rows are read are neither repeated nor lost", async () => {
  const { followers, reads, events } = open();
  const first = events.next();
  followers.publish(sessionId, span(1, 3));
  await turns();
  reads[0]!.answer(span(1, 2));
  assert.deepEqual((await first).value, span(1, 2));
  assert.deepEqual((await events.next()).value, span(3, 3));
  assert.equal(reads.length, 1, "without reading again");
});

test("a gap in the published events is read", async () => {
  const { followers, reads, events } = open();
  const first = events.next();
  await turns();
  reads[0]!.answer([]);
  await turns();
  followers.publish(sessionId, span(1, 1));
  assert.deepEqual((await first).value, span(1, 1));
  followers.publish(sessionId, span(4, 4));
  const second = events.next();
  await turns();
  assert.equal(reads[1]!.after, 1);
  reads[1]!.answer(span(2, 4));
  assert.deepEqual((await second).value, span(2, 4));
});

/** Takes groups up to the event with this number. */
async function takeTo(events: AsyncIterator<readonly JournalEvent[]>, last: number) {
  const taken: JournalEvent[] = [];
  while (taken.at(-1)?.seq !== last) taken.push(...((await events.next()).value as JournalEvent[]));
  return taken;
}

test("a follower that does not pull holds at most 64 KiB and reads what it missed", async () => {
  const budget = new ReaderBudget();
  const { followers, reads, events } = open(budget);
  const first = events.next();
  await turns();
  reads[0]!.answer(span(1, 1));
  await first;
  followers.publish(sessionId, span(2, 4, 20_000));
  assert.deepEqual(await takeTo(events, 4), span(2, 4, 20_000));
  followers.publish(sessionId, span(5, 8, 20_000));
  followers.publish(sessionId, span(9, 10));
  assert.equal(budget.usedBytes, 0, "one more than it holds: it lets go");
  const next = takeTo(events, 10);
  await turns();
  assert.equal(reads[1]!.after, 4, "and reads");
  reads[1]!.answer([...span(5, 8, 20_000), ...span(9, 10)]);
  assert.deepEqual(await next, [...span(5, 8, 20_000), ...span(9, 10)]);
  await events.return?.();
  assert.equal(budget.usedBytes, 0, "what was kept is given back when it leaves");
});

test("a reader gets 16 KiB or one event at a time, and no more is buffered for it", async () => {
  const { reads, events } = open();
  const first = events.next();
  await turns();
  reads[0]!.answer([...span(1, 3, 6_000), event(4, 100_000), event(5)], true);
  assert.deepEqual((await first).value, span(1, 2, 6_000));
  assert.deepEqual((await events.next()).value, span(3, 3, 6_000));
  assert.deepEqual((await events.next()).value, [event(4, 100_000)]);
  assert.deepEqual((await events.next()).value, span(5, 5));
  const next = events.next();
  await turns();
  assert.equal(reads[1]!.after, 5, "there was more");
  reads[1]!.answer(span(6, 6));
  assert.deepEqual((await next).value, span(6, 6));
});

test("readers of one page share one read and one copy", async () => {
  const { followers, reads, events } = open();
  const others = Array.from({ length: 50 }, () => followers.follow({ sessionId }));
  const firsts = [events, ...others].map((each) => each.next());
  await turns();
  assert.equal(reads.length, 1);
  reads[0]!.answer(span(1, 3), true);
  const groups = (await Promise.all(firsts)).map(({ value }) => value as JournalEvent[]);
  for (const group of groups) group.forEach((each, at) => assert.equal(each, groups[0]![at]));
  const late = followers.follow({ sessionId });
  const { value } = await late.next();
  assert.equal((value as JournalEvent[])[0], groups[0]![0], "also for one that comes later");
  assert.equal(reads.length, 1);
});

test("without memory for more, pages are read again, and active readers miss nothing", async () => {
  const budget = new ReaderBudget(10_000);
  const { followers, reads, events } = open(budget);
  const whole = span(1, 40, 3_000);
  const taking = takeTo(events, 40);
  for (let answered = 0, isOver = false; !isOver;) {
    isOver = await Promise.race([taking.then(() => true), turns().then(() => false)]);
    followers.publish(sessionId, whole.slice(0, 40));
    for (; answered < reads.length; answered += 1) {
      const { after, answer } = reads[answered]!;
      answer(whole.slice(after, after + 20), after < 20);
    }
    assert.ok(budget.usedBytes <= 10_000);
  }
  assert.deepEqual(await taking, whole);
  await events.return?.();
  assert.equal(budget.usedBytes, 0);
});

test("ten thousand followers that come and go leave nothing behind", async () => {
  const budget = new ReaderBudget();
  const { followers, reads, watching, events } = open(budget);
  await events.return?.();
  for (let round = 0; round < 100; round += 1) {
    const came = Array.from({ length: 100 }, () => followers.follow({ sessionId }));
    const firsts = came.map((each) => each.next());
    await turns();
    reads.at(-1)!.answer(span(1, 20, 1_000));
    await Promise.all(firsts);
    followers.publish(sessionId, span(21, 22, 1_000));
    await Promise.all(came.map((each) => each.return?.()));
  }
  assert.deepEqual([budget.usedBytes, watching.length], [0, 0]);
});

test("other processes' wake-ups are watched only while a follower exists, and reach the named scopes", async () => {
  const { reads, watching, events } = open();
  assert.equal(watching.length, 1);
  const first = events.next();
  await turns();
  reads[0]!.answer([]);
  await turns();
  watching[0]!(["s:another"]);
  await turns();
  assert.equal(reads.length, 1);
  watching[0]!(["s:s"]);
  await turns();
  reads[1]!.answer(span(1, 1));
  assert.deepEqual((await first).value, span(1, 1));
  await events.return?.();
  assert.equal(watching.length, 0);
});

test("closing ends idle followers, and stops watching", async () => {
  const { followers, watching, events } = open();
  assert.equal(watching.length, 1);
  followers.close();
  assert.equal(watching.length, 0);
  assert.deepEqual(await events.next(), { done: true, value: undefined });
  assert.deepEqual(await followers.follow({ sessionId })[Symbol.asyncIterator]().next(), {
    done: true,
    value: undefined,
  });
  assert.equal(watching.length, 0);
});

test("a fresh follower does not read before there is something to read", async () => {
  const { followers, reads } = open();
  const events = followers.follow({ sessionId: "new" }, { fresh: true });
  const first = events.next();
  followers.publish("new", [{ ...event(1), sessionId: "new" }]);
  assert.equal((await first).value?.length, 1);
  assert.equal(reads.length, 0);
});

test("a read that fails fails its follower, unless the store closed under it", async () => {
  const { reads, events, watching } = open();
  const failing = events.next();
  await turns();
  reads[0]!.fail(new Error("gone"));
  await assert.rejects(failing, /gone/);
  assert.equal(watching.length, 0);

  const closing = open();
  const ending = closing.events.next();
  await turns();
  closing.followers.close();
  closing.reads[0]!.fail(new Error("gone"));
  assert.deepEqual(await ending, { done: true, value: undefined });
});
