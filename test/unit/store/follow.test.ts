import assert from "node:assert/strict";
import { test } from "node:test";
import { Followers } from "../../../src/store/follow.ts";
import type { JournalEvent } from "../../../src/store/journal.ts";

const sessionId = "s";
const event = (seq: number): JournalEvent => ({
  sessionId,
  seq,
  runId: null,
  runSeq: null,
  type: "x",
  data: {},
  atMs: 0,
});
const span = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => event(from + i));

const turns = () => new Promise((resolve) => setImmediate(resolve));

/** Followers whose reads the test answers, one by one. */
function open() {
  const reads: {
    after: number;
    answer: (events: readonly JournalEvent[]) => void;
    fail: (error: Error) => void;
  }[] = [];
  const watching: ((scopes: readonly string[] | undefined) => void)[] = [];
  const followers = new Followers({
    read: (_scope, after) => new Promise((answer, fail) => reads.push({ after, answer, fail })),
    watch: (wake) => {
      watching.push(wake);
      return () => watching.splice(watching.indexOf(wake), 1);
    },
  });
  return { followers, reads, watching, events: followers.follow({ sessionId }) };
}

test("what is handed over while rows are read is neither repeated nor lost", async () => {
  const { followers, reads, events } = open();
  const first = events.next();
  followers.publish(sessionId, span(1, 3));
  reads[0]!.answer(span(1, 2));
  assert.deepEqual((await first).value, span(1, 2));
  assert.deepEqual((await events.next()).value, span(3, 3));
  assert.equal(reads.length, 1, "without reading again");
});

test("a hole in what is handed over is read", async () => {
  const { followers, reads, events } = open();
  const first = events.next();
  reads[0]!.answer([]);
  await Promise.resolve();
  followers.publish(sessionId, span(1, 1));
  assert.deepEqual((await first).value, span(1, 1));
  followers.publish(sessionId, span(4, 4));
  const second = events.next();
  assert.equal(reads[1]!.after, 1);
  reads[1]!.answer(span(2, 4));
  assert.deepEqual((await second).value, span(2, 4));
});

test("a follower that does not pull holds at most 256 events and reads what it missed", async () => {
  const { followers, reads, events } = open();
  const first = events.next();
  reads[0]!.answer(span(1, 1));
  await first;
  followers.publish(sessionId, span(2, 257));
  assert.deepEqual((await events.next()).value, span(2, 257));
  followers.publish(sessionId, span(258, 514));
  followers.publish(sessionId, span(515, 600));
  const next = events.next();
  assert.equal(reads[1]!.after, 257, "one more than it holds: it lets go and reads");
  reads[1]!.answer(span(258, 600));
  assert.deepEqual((await next).value, span(258, 600));
});

test("wake-ups from elsewhere are watched for only while somebody follows, and reach the named scopes", async () => {
  const { reads, watching, events } = open();
  assert.equal(watching.length, 1);
  const first = events.next();
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

test("closing ends followers that nobody pulls, and watching with them", async () => {
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
  reads[0]!.fail(new Error("gone"));
  await assert.rejects(failing, /gone/);
  assert.equal(watching.length, 0);

  const closing = open();
  const ending = closing.events.next();
  closing.followers.close();
  closing.reads[0]!.fail(new Error("gone"));
  assert.deepEqual(await ending, { done: true, value: undefined });
});
