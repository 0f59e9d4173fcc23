import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { encodeSse, sseStream, type SseOptions } from "../../../src/http/edge/answer.ts";
import { ReaderBudget } from "../../../src/store/journal/reader-budget.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const decoder = new TextDecoder();

interface Reported {
  gone: number;
  failures: unknown[];
}

function open(source: AsyncIterable<{ data: unknown }>, more: Partial<SseOptions> = {}) {
  const reported: Reported = { gone: 0, failures: [] };
  const clock = new FakeClock();
  const stream = sseStream(source, {
    meta: undefined,
    clock,
    keepaliveMs: 1_000_000,
    slowReaderMs: 1_000_000,
    greets: true,
    readers: new ReaderBudget(),
    onClientGone: () => void reported.gone++,
    onFailure: (error) => void reported.failures.push(error),
    ...more,
  });
  const reader = stream.getReader();
  const next = async () => {
    const { done, value } = await reader.read();
    return done ? undefined : decoder.decode(value);
  };
  const rest = async () => {
    const chunks: string[] = [];
    for (let chunk = await next(); chunk !== undefined; chunk = await next()) chunks.push(chunk);
    return chunks;
  };
  return { clock, reader, reported, next, rest };
}

/** Nothing here waits on a timer: once the microtasks have run dry, the stream has pulled all that it will. */
async function settled() {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function* items(...data: readonly unknown[]) {
  for (const item of data) yield { data: item };
}

/** A source that yields the given items, and counts the pulls. */
function held() {
  const state = { asked: 0, returned: 0 };
  type Slot = PromiseWithResolvers<IteratorResult<{ data: unknown }>>;
  // The n-th answer belongs to the n-th question, whichever comes first.
  const slots: Slot[] = [];
  const slot = (index: number) => (slots[index] ??= Promise.withResolvers());
  let answered = 0;
  const source: AsyncIterable<{ data: unknown }> = {
    [Symbol.asyncIterator]: () => ({
      next() {
        return slot(state.asked++).promise;
      },
      async return() {
        state.returned++;
        return { done: true, value: undefined };
      },
    }),
  };
  const give = (data: unknown) => slot(answered++).resolve({ done: false, value: { data } });
  const fail = (error: unknown) => slot(answered++).reject(error);
  return { source, state, give, fail };
}

test("the first bytes are sent before the source yields", async () => {
  const { source } = held();
  const { next, reader } = open(source);
  assert.equal(await next(), ": connected\n\n");
  await reader.cancel();
});

test("each event is one chunk of any size, and line breaks stay inside it", async () => {
  const data = ["a\nb\r\n\n: c", { long: "x".repeat(300_000) }, "\u2028 日本 \u0000", null];
  const { rest } = open(items(...data));
  const [, ...chunks] = await rest();
  assert.equal(chunks.at(-1), ": stream closed\n\n");
  assert.deepEqual(
    chunks.slice(0, -1).map((chunk) => JSON.parse(/^data: (.*)\n\n$/s.exec(chunk)![1]!)),
    data,
  );
});

test("an event's name and id precede its data", () => {
  assert.equal(encodeSse({ data: 1, event: "run.queued", id: "7" }), "event: run.queued\nid: 7\ndata: 1\n\n");
  assert.equal(encodeSse({ data: "x" }), 'data: "x"\n\n');
});

test("the stream ends with the terminator that the spec names", async () => {
  const { rest } = open(items(1), { meta: { terminator: "[DONE]" } as SseOptions["meta"] & object });
  assert.deepEqual(await rest(), [": connected\n\n", "data: 1\n\n", "data: [DONE]\n\n"]);
});

test("a source without events still opens and ends", async () => {
  assert.deepEqual(await open(items()).rest(), [": connected\n\n", ": stream closed\n\n"]);
});

test("a quiet stream gets keepalive comments until the client leaves", async () => {
  const { source } = held();
  const { clock, next, reader, reported } = open(source, { keepaliveMs: 10 });
  assert.equal(await next(), ": connected\n\n");
  for (let i = 0; i < 3; i++) {
    clock.tick(10);
    assert.equal(await next(), ": keepalive\n\n");
  }
  await reader.cancel();
  assert.equal(reported.gone, 1);
  assert.equal(clock.pending, 0);
});

test("a client that does not read gets no pile of comments", async () => {
  const { source, give } = held();
  const { clock, reader, next } = open(source, { keepaliveMs: 1 });
  assert.match((await next())!, /connected/);
  clock.tick(100);
  give("said");
  assert.match((await next())!, /keepalive/);
  assert.match((await next())!, /said/);
  await reader.cancel();
});

test("the client's leaving is reported once, and later events are dropped", async () => {
  await using _ = watchUnhandled();
  const { source, give } = held();
  const { reader, reported, next } = open(source);
  await next();
  await reader.cancel();
  await reader.cancel();
  give("too late");
  assert.equal(reported.gone, 1);
  assert.deepEqual(reported.failures, []);
});

test("a source that fails after the client left does not fail the stream", async () => {
  await using _ = watchUnhandled();
  const { source, fail } = held();
  const { reader, reported, next } = open(source);
  await next();
  await reader.cancel();
  fail(new Error("cut"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reported, { gone: 1, failures: [] });
});

test("a source that fails cuts the stream and reports the error", async () => {
  await using _ = watchUnhandled();
  const error = new Error("the store is gone");
  const { source, give, fail } = held();
  const { next, reported } = open(source, { meta: { terminator: "[DONE]" } as SseOptions["meta"] & object });
  assert.equal(await next(), ": connected\n\n");
  give(1);
  assert.equal(await next(), "data: 1\n\n");
  fail(error);
  await assert.rejects(next(), error);
  assert.deepEqual(reported, { gone: 0, failures: [error] });
});

test("an event that the inspection refuses is not sent, and the source is closed", async () => {
  const { source, state, give } = held();
  const refuse = () => {
    throw new Error("not in the spec");
  };
  const { next, reported } = open(source, { inspect: refuse });
  await next();
  give("bad");
  await assert.rejects(next(), /not in the spec/);
  assert.equal(reported.failures.length, 1);
  assert.equal(state.asked, 1);
  assert.equal(state.returned, 1);
});

test("data that is not JSON cuts the stream", async () => {
  const { next, reported } = open(items({ big: 1n }));
  await next();
  await assert.rejects(next(), TypeError);
  assert.equal(reported.failures.length, 1);
});

test("a client that does not read pauses the source at 16 KiB", async () => {
  for (const size of [10, 1_000, 100_000]) {
    let given = 0;
    async function* endless() {
      for (;;) yield { data: `${given++} ${"x".repeat(size)}` };
    }
    const readers = new ReaderBudget();
    const { reader, next } = open(endless(), { readers });
    await settled();
    assert.ok(
      readers.usedBytes >= 16_384 && readers.usedBytes <= 16_384 + size + 100,
      `${readers.usedBytes}`,
    );
    assert.ok((given - 1) * size <= 16_384, `${given} events were pulled although none was read`);
    assert.equal(await next(), ": connected\n\n");
    for (let i = 0; i < 1000; i++) assert.ok((await next())?.startsWith(`data: "${i} `));
    await reader.cancel();
    assert.equal(readers.usedBytes, 0, "what waited is given back");
  }
});

test("a client that does not read is cut after its time, and one that reads slowly is not", async () => {
  const { source, state, give } = held();
  const { clock, reader, next, reported } = open(source, { slowReaderMs: 300 });
  for (let i = 0; i < 100; i++) give("x".repeat(20_000));
  // It reads one event now and then, for longer than the time.
  for (let i = 0; i < 8; i++) {
    await settled();
    clock.tick(299);
    assert.ok(await next());
  }
  await settled();
  assert.deepEqual([reported.gone, state.returned], [0, 0]);
  clock.tick(300);
  await assert.rejects(reader.closed, /does not read/);
  assert.deepEqual([reported.gone, state.returned, reported.failures], [1, 1, []]);
});

test("a stream without events is never cut as slow", async () => {
  const { source, give } = held();
  const { clock, next, reported, reader } = open(source, { slowReaderMs: 10 });
  await next();
  await settled();
  clock.tick(50);
  give("late");
  assert.match((await next()) ?? "", /late/);
  assert.equal(reported.gone, 0);
  await reader.cancel();
});

test("waiting bytes of all streams together are limited: the stream that read last of all is cut", async () => {
  const readers = new ReaderBudget(100_000);
  const event = "x".repeat(30_000);
  const endless = async function* () {
    for (;;) yield { data: event };
  };
  const silent = open(endless(), { readers });
  await settled();
  const reading = open(endless(), { readers });
  for (let i = 0; i < 3; i++) await reading.next();
  const another = open(endless(), { readers });
  await settled();
  assert.equal(silent.reported.gone, 0, "three times 30 kB fit");
  const last = open(endless(), { readers });
  await settled();
  assert.equal(silent.reported.gone, 1);
  await assert.rejects(silent.reader.closed, /does not read/);
  assert.ok(readers.usedBytes <= 100_000);
  for (let i = 0; i < 10; i++) assert.ok(await reading.next());
  for (const { reported, reader } of [reading, another, last]) {
    assert.equal(reported.gone, 0);
    await reader.cancel();
  }
  assert.equal(readers.usedBytes, 0);
});
