import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent, Scope } from "../../../src/store/journal/journal.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "./child.ts";
import { deltas, runRow, seed, sessionRow } from "./rows.ts";

const append = (store: Store, sessionId: string, events: ReturnType<typeof deltas>) =>
  store.write((tx) => store.journal.append(tx, sessionId, events));

/** Everything of the scope, read in pages. */
async function readAll(store: Store, scope: Scope, after = 0): Promise<JournalEvent[]> {
  const all: JournalEvent[] = [];
  for (;;) {
    const last = all.at(-1);
    const from = last ? numberOf(scope, last) : after;
    const page = await store.journal.read(scope, { after: from, limit: 100 });
    if (page.length === 0) return all;
    all.push(...page);
  }
}

const numberOf = (scope: Scope, event: JournalEvent) => ("runId" in scope ? Number(event.runSeq) : event.seq);

/** Follows until `count` events have come. */
async function take(events: AsyncIterable<readonly JournalEvent[]>, count: number): Promise<JournalEvent[]> {
  const taken: JournalEvent[] = [];
  for await (const group of events) {
    assert.ok(group.length > 0, "groups are not empty");
    taken.push(...group);
    if (taken.length >= count) break;
  }
  return taken;
}

test("a process that lost the lease of a session appends nothing under it", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const leaseTo = (owner: string) =>
    store.write((tx) => tx.update("sessions", { id: sessionId }, { lease_owner: owner }));
  const appendUnderLease = () =>
    store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 2), { leasedBy: store.owner }));
  await leaseTo(store.owner);
  assert.equal((await appendUnderLease()).length, 2);
  await leaseTo("elsewhere:1:abc");
  await assert.rejects(appendUnderLease(), { code: "session_busy" });
  assert.deepEqual(
    (await readAll(store, { runId })).map(({ seq, runSeq }) => [seq, runSeq]),
    [
      [1, 1],
      [2, 2],
    ],
  );
});

test("append numbers a session's events from 1 without gaps, and a run's own beside them", async (t) => {
  const { store } = await openTestStore(t, { now: () => 777 });
  const { sessionId, runId } = await seed(store);
  const other = runRow(sessionId);
  await store.write((tx) => tx.insert("runs", [other]));
  const one = await append(store, sessionId, deltas(runId, 2));
  const two = await append(store, sessionId, [
    ...deltas(null, 1),
    ...deltas(other.id, 1),
    ...deltas(runId, 1),
  ]);
  assert.deepEqual(
    [...one, ...two].map(({ seq, runSeq }) => [seq, runSeq]),
    [
      [1, 1],
      [2, 2],
      [3, null],
      [4, 1],
      [5, 3],
    ],
  );
  assert.deepEqual(two[1], {
    sessionId,
    seq: 4,
    runId: other.id,
    runSeq: 1,
    type: "message.delta",
    data: { text: "d0" },
    atMs: 777,
  });
  assert.deepEqual(await store.journal.read({ sessionId }), [...one, ...two]);
  assert.deepEqual(
    (await store.journal.read({ runId })).map((event) => event.seq),
    [1, 2, 5],
  );
});

test("a step numbers events and messages as separate appends do, and nothing without the lease", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const lease = (owner: string) =>
    store.write((tx) => tx.update("sessions", { id: sessionId }, { lease_owner: owner, last_message: 5 }));
  const step = (id = sessionId) => {
    const session = { sessionId: id, leasedBy: store.owner };
    return store.write((tx) =>
      store.journal.appendStep(tx, session, { events: deltas(runId, 2), messages: 3 }),
    );
  };
  await lease(store.owner);
  await append(store, sessionId, deltas(runId, 1));
  const { events, lastMessage } = await step();
  assert.equal(lastMessage, 8);
  assert.deepEqual(
    events.map(({ seq, runSeq }) => [seq, runSeq]),
    [
      [2, 2],
      [3, 3],
    ],
  );
  await lease("elsewhere:1:abc");
  await assert.rejects(step(), { code: "session_busy" });
  await assert.rejects(step("nobody"), { code: "session_busy" });
  const row = await store.find("sessions", { id: sessionId });
  assert.deepEqual([row?.last_seq, row?.last_message], [3, 5]);
  assert.deepEqual(await readAll(store, { runId }), await readAll(store, { sessionId }));
});

test("the end of a run sets its columns, writes its events once and frees the session unless runs are queued", async (t) => {
  const { store } = await openTestStore(t, { now: () => 99 });
  const lease = { lease_owner: store.owner, lease_until: 500 };
  for (const queued of [0, 2]) {
    const { sessionId, runId } = await seed(store);
    await append(store, sessionId, deltas(runId, 1));
    await store.write((tx) => tx.update("sessions", { id: sessionId }, { ...lease, queued }));
    const end = (leasedBy = store.owner) =>
      store.write((tx) => {
        const columns = { status: "failed", ended_at: tx.nowMs, output: "a\0b" };
        const events = [...deltas(runId, 1), { type: "run.failed", runId, data: {} }];
        return store.journal.end(tx, { sessionId, leasedBy }, { runId, columns, events, messages: 3 });
      });
    await assert.rejects(end("elsewhere:1:abc"), { code: "session_busy" });
    const ended = await end();
    assert.deepEqual([ended?.lastMessage, ended?.isReleased], [3, queued === 0]);
    assert.equal(await end(), undefined);
    const session = await store.find("sessions", { id: sessionId });
    assert.deepEqual(
      [session?.last_seq, session?.last_message, session?.queued, session?.lease_owner, session?.lease_until],
      [3, 3, queued, queued === 0 ? null : store.owner, queued === 0 ? 0 : 500],
    );
    const run = await store.find("runs", { id: runId });
    assert.deepEqual(
      [run?.status, run?.output, run?.last_seq, run?.last_event, run?.ended_at],
      ["failed", "a\ufffdb", 3, "run.failed", 99],
    );
    const written = await store.journal.read({ runId });
    assert.deepEqual(
      written.map(({ seq, runSeq }) => [seq, runSeq]),
      [
        [1, 1],
        [2, 2],
        [3, 3],
      ],
    );
  }
});

test("append records the last event and number of each run, and of the session", async (t) => {
  const { store } = await openTestStore(t, { now: () => 99 });
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, [
    { type: "run.started", runId, data: {} },
    { type: "run.completed", runId, data: {} },
  ]);
  const run = await store.read.selectFrom("runs").selectAll().executeTakeFirstOrThrow();
  assert.deepEqual([run.last_seq, run.last_event, run.updated_at], [2, "run.completed", 99]);
  const session = await store.read.selectFrom("sessions").selectAll().executeTakeFirstOrThrow();
  assert.equal(session.last_seq, 2);
});

test("append to a session or run that does not exist writes nothing", async (t) => {
  const { store } = await openTestStore(t);
  const [one, two] = [await seed(store), await seed(store)];
  await assert.rejects(append(store, "nobody", deltas(null, 1)), { code: "session_not_found" });
  await assert.rejects(append(store, "nobody", deltas(one.runId, 1)), { code: "session_not_found" });
  await assert.rejects(append(store, one.sessionId, deltas("run_x", 1)), { code: "run_not_found" });
  await assert.rejects(append(store, one.sessionId, deltas(two.runId, 1)), { code: "run_not_found" });
  const [first] = await append(store, one.sessionId, deltas(one.runId, 1));
  assert.deepEqual([first!.seq, first!.runSeq], [1, 1], "no number was used up");
  assert.deepEqual(await append(store, "nobody", []), []);
});

test("a work that fails takes its numbers back", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const failing = store.write(async (tx) => {
    await store.journal.append(tx, sessionId, deltas(runId, 3));
    throw new Error("no");
  });
  const good = append(store, sessionId, deltas(runId, 2));
  await assert.rejects(failing, /no/);
  assert.deepEqual(
    (await good).map((event) => event.seq),
    [1, 2],
  );
  assert.equal((await readAll(store, { sessionId })).length, 2);
});

test("numbers of deleted events are never reused", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 5));
  await store.write((tx) => tx.db.deleteFrom("events").execute());
  const [event] = await append(store, sessionId, deltas(runId, 1));
  assert.deepEqual([event!.seq, event!.runSeq], [6, 6]);
});

test("read gives what lies above `after`, at most `limit`, 512 when none is named", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 600));
  assert.equal((await store.journal.read({ sessionId })).length, 512);
  assert.deepEqual(
    (await store.journal.read({ runId }, { after: 597, limit: 2 })).map((e) => e.runSeq),
    [598, 599],
  );
  assert.deepEqual(await store.journal.read({ sessionId }, { after: 600 }), []);
  assert.deepEqual(await store.journal.read({ sessionId: "nobody" }), []);
});

test("data is returned unchanged, whatever text it holds", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const data = { text: "\0 \u{1f9ea} \ud800 ' \" ? $1", nested: [1, null, true, { "": 1e21 }] };
  await append(store, sessionId, [{ type: "x", runId: null, data }]);
  assert.deepEqual((await store.journal.read({ sessionId }))[0]!.data, data);
});

test("follow replays from the cursor, then continues live, in order and without repeats", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 1200, "old"));
  const following = take(store.journal.follow({ sessionId }, { after: 100 }), 1200);
  for (let i = 0; i < 100; i++) await append(store, sessionId, deltas(runId, 1, `new${i}-`));
  assert.deepEqual(await following, await readAll(store, { sessionId }, 100));
});

test("a follower of one run gets that run's events alone", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const other = runRow(sessionId);
  await store.write((tx) => tx.insert("runs", [other]));
  const following = take(store.journal.follow({ runId }), 20);
  for (let i = 0; i < 20; i++)
    await append(store, sessionId, [...deltas(other.id, 3), ...deltas(runId, 1), ...deltas(null, 1)]);
  assert.deepEqual(
    (await following).map((e) => [e.runId, e.runSeq]),
    Array.from({ length: 20 }, (_, i) => [runId, i + 1]),
  );
});

test("a follower never learns of events whose work failed", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const following = take(store.journal.follow({ sessionId }), 30);
  for (let i = 0; i < 30; i++) {
    const failing = store.write(async (tx) => {
      await store.journal.append(tx, sessionId, deltas(runId, 2, "lost"));
      throw new Error("no");
    });
    await Promise.all([append(store, sessionId, deltas(runId, 1, "kept")), assert.rejects(failing)]);
  }
  assert.deepEqual(
    (await following).map((e) => e.data["text"]),
    Array(30).fill("kept0"),
  );
});

test("a follower that does not pull loses nothing", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const events = store.journal.follow({ sessionId })[Symbol.asyncIterator]();
  await append(store, sessionId, deltas(runId, 1));
  const first = await events.next();
  for (let i = 0; i < 40; i++) await append(store, sessionId, deltas(runId, 50, `${i}-`));
  const rest = await take({ [Symbol.asyncIterator]: () => events }, 2000);
  assert.deepEqual([...(first.value ?? []), ...rest], await readAll(store, { sessionId }));
});

test("follow ends when its signal aborts: before it starts, while it waits, and while it is idle", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 3));
  const never = store.journal.follow({ sessionId }, { signal: AbortSignal.abort(new Error("no")) });
  assert.deepEqual(await take(never, 1), []);

  const waiting = new AbortController();
  const following = take(store.journal.follow({ sessionId }, { signal: waiting.signal }), 99);
  await append(store, sessionId, deltas(runId, 1));
  waiting.abort(new Error("enough"));
  assert.ok((await following).length <= 4);

  const idle = new AbortController();
  const events = store.journal.follow({ sessionId }, { signal: idle.signal })[Symbol.asyncIterator]();
  assert.equal((await events.next()).done, false);
  await append(store, sessionId, deltas(runId, 1));
  idle.abort();
  assert.deepEqual(await events.next(), { done: true, value: undefined });
});

test("follow ends when the store closes, and is over at once after that", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 700));
  const waiting = take(store.journal.follow({ sessionId }, { after: 700 }), 1);
  const reading = take(store.journal.follow({ sessionId }), 99_999);
  await store.close();
  assert.deepEqual(await waiting, []);
  await reading;
  assert.deepEqual(await take(store.journal.follow({ sessionId }), 1), []);
});

test("many followers at random cursors, some slow, all get exactly what a read gives", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const sessions = await Promise.all([seed(store), seed(store), seed(store)]);
  const random = mulberry(20260101);
  const pick = (n: number) => Math.floor(random() * n);
  const total = new Map(sessions.map(({ sessionId }) => [sessionId, 0]));
  const writers = Array.from({ length: 150 }, (_, i) => {
    const { sessionId, runId } = sessions[pick(3)]!;
    const events = deltas(pick(4) === 0 ? null : runId, 1 + pick(pick(10) === 0 ? 400 : 5), `${i}-`);
    total.set(sessionId, total.get(sessionId)! + events.length);
    return async () => void (await append(pick(3) === 0 ? other : store, sessionId, events));
  });
  const expected: { scope: Scope; after: number; cut: number; got: Promise<JournalEvent[]> }[] = [];
  for (let i = 0; i < 24; i++) {
    const { sessionId } = sessions[pick(3)]!;
    const count = total.get(sessionId)!;
    const after = pick(count);
    const cut = 1 + pick(count - after);
    const slow = pick(2) === 0;
    const follow = (pick(2) === 0 ? store : other).journal.follow({ sessionId }, { after });
    expected.push({ scope: { sessionId }, after, cut, got: take(slow ? lagging(follow) : follow, cut) });
  }
  for (let i = 0; i < writers.length; i += 3)
    await Promise.all(writers.slice(i, i + 3).map((write) => write()));
  for (const { scope, after, cut, got } of expected) {
    const events = await got;
    const straight = await readAll(store, scope, after);
    assert.ok(events.length >= cut);
    assert.deepEqual(events, straight.slice(0, events.length));
  }
});

test("a follower in another process sees every event once, in order, beside its own writer", async (t) => {
  const { store, url } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await append(store, sessionId, deltas(runId, 10, "before"));
  const child = startChild("./child-journal.ts", [url, sessionId, runId, "300"]);
  // Waiting for another process's events does not keep a process alive by itself.
  const alive = setInterval(() => {}, 1_000);
  t.after(async () => {
    clearInterval(alive);
    child.process.kill("SIGKILL");
  });
  const seen: number[] = [];
  let isReady = false;
  const mine = take(store.journal.follow({ sessionId }), 310 + 60);
  for await (const line of child.lines) {
    const { ready, seqs } = line as { ready?: true; seqs?: number[] };
    if (ready && !isReady) {
      isReady = true;
      void (async () => {
        for (let i = 0; i < 60; i++) await append(store, sessionId, deltas(runId, 1, "parent"));
      })();
    }
    seen.push(...(seqs ?? []));
  }
  assert.equal(await child.exit, 0);
  assert.deepEqual(
    seen,
    Array.from({ length: 370 }, (_, i) => i + 1),
  );
  assert.deepEqual(
    (await mine).map((event) => event.seq),
    seen,
  );
});

/** A reader that gives way to everything else between two groups. */
async function* lagging<T>(events: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const group of events) {
    for (let i = 0; i < 25; i++) await new Promise((resolve) => setImmediate(resolve));
    yield group;
  }
}

/** A small seeded generator: a failure can be repeated. */
function mulberry(seedNumber: number): () => number {
  let state = seedNumber;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test("begin does what two inserts and an append do, and is followed like any append", async (t) => {
  const { store } = await openTestStore(t);
  const session = sessionRow();
  const run = runRow(session.id);
  const following = take(store.journal.follow({ runId: run.id }, { fresh: true }), 3);
  const begun = await store.write((tx) => store.journal.begin(tx, { session, run }, deltas(run.id, 2)));
  assert.deepEqual(
    begun.map(({ seq, runSeq }) => [seq, runSeq]),
    [
      [1, 1],
      [2, 2],
    ],
  );
  const [third] = await append(store, session.id, deltas(run.id, 1));
  assert.deepEqual([third?.seq, third?.runSeq], [3, 3]);
  assert.deepEqual(await following, await readAll(store, { sessionId: session.id }));
  const row = await store.read.selectFrom("runs").selectAll().where("id", "=", run.id).executeTakeFirst();
  assert.deepEqual([row?.last_seq, row?.last_event], [3, "message.delta"]);
});

test("begin with a session that exists writes nothing", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const run = runRow(sessionId);
  const rows = { session: sessionRow({ id: sessionId }), run };
  await assert.rejects(store.write((tx) => store.journal.begin(tx, rows, deltas(run.id, 1))));
  assert.deepEqual(await store.journal.read({ runId: run.id }), []);
});
