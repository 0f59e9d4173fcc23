import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent, SessionEvents } from "../../../src/store/journal/journal.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { deltas, runRow, seed } from "./rows.ts";

const appendAll = (store: Store, appends: readonly SessionEvents[]) =>
  store.write((tx) => store.journal.appendAll(tx, appends));

const numbersOf = (events: readonly JournalEvent[]) =>
  events.map(({ seq, runId, runSeq, type, data }) => ({ seq, runId, runSeq, type, data }));

test("events appended to many sessions at once are numbered as one append after the other numbers them", async (t) => {
  const { store } = await openTestStore(t, { now: () => 777 });
  const sessions = await Promise.all(Array.from({ length: 150 }, () => seed(store)));
  const second = runRow(sessions[0]!.sessionId);
  await store.write((tx) => tx.insert("runs", [second]));
  for (const { sessionId, runId } of sessions.slice(0, 20))
    await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 3, "before")));
  const appends = sessions.map(({ sessionId, runId }, index) => ({
    sessionId,
    events: [...deltas(runId, 1 + (index % 5)), ...(index % 2 === 0 ? deltas(null, 1) : [])],
  }));
  appends[0]!.events.push(...deltas(second.id, 2), { type: "run.interrupted", runId: second.id, data: {} });
  const returned = await appendAll(store, [
    ...appends,
    // More of a session that is among them.
    { sessionId: sessions[1]!.sessionId, events: deltas(sessions[1]!.runId, 2, "more") },
    { sessionId: sessions[2]!.sessionId, events: [] },
  ]);
  appends[1]!.events.push(...deltas(sessions[1]!.runId, 2, "more"));
  assert.equal(returned.length, sessions.length);
  for (const [index, { sessionId, runId }] of sessions.entries()) {
    const before = index < 20 ? 3 : 0;
    const runs = new Map<string, number>([[runId, before]]);
    const expected = appends[index]!.events.map(({ type, runId: of, data }, place) => {
      const runSeq = of === null ? null : (runs.get(of) ?? 0) + 1;
      if (of !== null) runs.set(of, runSeq!);
      return { seq: before + place + 1, runId: of, runSeq, type, data };
    });
    const stored = await store.journal.read({ sessionId }, { after: before });
    assert.deepEqual(numbersOf(stored), expected);
    assert.deepEqual(numbersOf(returned.find((one) => one.sessionId === sessionId)!.events), expected);
    const session = await store.find("sessions", { id: sessionId });
    assert.equal(session?.last_seq, before + expected.length);
    for (const [id, last] of runs) {
      const run = await store.find("runs", { id });
      const lastType = expected.findLast((event) => event.runId === id)?.type;
      assert.deepEqual([run?.last_seq, run?.last_event, run?.updated_at], [last, lastType, 777]);
    }
  }
});

test("followers of many sessions, in this process and another, get what was appended to all of them at once", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const sessions = await Promise.all(Array.from({ length: 40 }, () => seed(store)));
  const first = async (from: Store, runId: string) => {
    for await (const group of from.journal.follow({ runId })) return group;
    return [];
  };
  // Waiting for another process's events does not keep a process alive by itself.
  const alive = setInterval(() => {}, 1_000);
  t.after(() => clearInterval(alive));
  const following = sessions.flatMap(({ runId }) => [first(store, runId), first(other, runId)]);
  await appendAll(
    store,
    sessions.map(({ sessionId, runId }) => ({ sessionId, events: deltas(runId, 1, runId) })),
  );
  for (const [index, group] of (await Promise.all(following)).entries()) {
    const { runId } = sessions[Math.floor(index / 2)]!;
    assert.deepEqual(
      group.map((event) => [event.runSeq, event.data["text"]]),
      [[1, `${runId}0`]],
    );
  }
});

for (const { what, code, broken } of [
  {
    what: "a session that does not exist",
    code: "session_not_found",
    broken: (): SessionEvents => ({ sessionId: "nobody", events: deltas(null, 1) }),
  },
  {
    what: "a run of another session",
    code: "run_not_found",
    broken: (sessionId: string, otherRun: string): SessionEvents => ({
      sessionId,
      events: deltas(otherRun, 1),
    }),
  },
]) {
  test(`an append to many sessions with ${what} among them writes nothing`, async (t) => {
    const { store } = await openTestStore(t);
    const [one, two, three] = [await seed(store), await seed(store), await seed(store)];
    const appends = [
      { sessionId: one.sessionId, events: deltas(one.runId, 2) },
      broken(two.sessionId, three.runId),
    ];
    await assert.rejects(appendAll(store, appends), { code });
    for (const { sessionId, runId } of [one, two, three]) {
      assert.deepEqual(await store.journal.read({ sessionId }), []);
      assert.equal((await store.find("sessions", { id: sessionId }))?.last_seq, 0);
      assert.equal((await store.find("runs", { id: runId }))?.last_seq, 0);
    }
  });
}

test("appends to many sessions and to one at a time, from two processes at once, leave no gap and repeat no number", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const sessions = await Promise.all(Array.from({ length: 20 }, () => seed(store)));
  const all = sessions.map(({ sessionId, runId }) => ({ sessionId, events: deltas(runId, 2, "many") }));
  const many = async () => {
    for (let round = 0; round < 10; round++) await appendAll(store, all);
  };
  const single = async () => {
    for (let round = 0; round < 5; round++) {
      for (const { sessionId, runId } of sessions)
        await other.write((tx) => other.journal.append(tx, sessionId, deltas(runId, 1, "one")));
    }
  };
  await Promise.all([many(), single()]);
  const numbers = Array.from({ length: 25 }, (_, index) => index + 1);
  for (const { sessionId, runId } of sessions) {
    const events = await store.journal.read({ sessionId });
    assert.deepEqual(
      events.map(({ seq }) => seq),
      numbers,
    );
    assert.deepEqual(
      (await store.journal.read({ runId })).map(({ runSeq }) => runSeq),
      numbers,
    );
  }
});
