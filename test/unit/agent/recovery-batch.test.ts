/** Many runs that gone processes left, closed together. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { runEvent } from "../../../src/agent/run/event.ts";
import { createId } from "../../../src/base/text.ts";
import type { Store, Tx } from "../../../src/store/store.ts";
import { abandonSessions, GHOST, type Abandoned } from "../../harness/abandoned.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";
import { countStatements } from "../../harness/counted-store.ts";
import { failWrites } from "../../harness/failing-store.ts";
import { testDialect } from "../../harness/store.ts";
import { runRow } from "../store/rows.ts";

const OWNER = "tester";

const question = {
  id: createId("ask"),
  owner: OWNER,
  kind: "clarify",
  status: "open",
  question: JSON.stringify({ question: "Which?", choices: [] }),
  answer: null,
  answered_by: null,
  created_at: 1,
  expires_at: null,
  answered_at: null,
  call_id: null,
  used_at: null,
};

/** Each session's events, and each run's, are numbered from 1 on without a gap, and their counters say so. */
async function assertNumbered({ store }: TestAgent, all: readonly Abandoned[]): Promise<void> {
  for (const { sessionId, runId } of all) {
    const events = await store.journal.read({ sessionId });
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, index) => index + 1),
    );
    assert.equal((await store.find("sessions", { id: sessionId }))?.last_seq, events.length);
    const own = await store.journal.read({ runId });
    assert.deepEqual(
      own.map(({ runSeq }) => runSeq),
      own.map((_, index) => index + 1),
    );
    const run = await store.find("runs", { id: runId });
    assert.deepEqual([run?.last_seq, run?.last_event], [own.length, own.at(-1)?.type]);
  }
}

test("what is read and written for many gone runs takes one statement for every three sessions at most", async (t) => {
  await using agent = await createTestAgent();
  const COUNT = 256;
  await abandonSessions(agent.store, COUNT);
  const statements = countStatements(t as TestContext, agent.store);
  assert.equal(await agent.recovery.recover(), COUNT);
  assert.ok(statements.value <= COUNT / 3, `${statements.value} statements for ${COUNT} sessions`);
});

test(
  "PostgreSQL finds the rows of gone runs by their keys: what it reads does not grow with what is stored",
  { skip: testDialect === "sqlite" },
  async (t) => {
    await using agent = await createTestAgent();
    const COUNT = 1_000;
    await abandonSessions(agent.store, COUNT);
    // Plans follow what the database last counted, which may be from a test before: it took the tables for empty then.
    await agent.store.write(({ db }) => sql`analyze events, runs, sessions, messages`.execute(db));
    const read = countRowsRead(t as TestContext, agent.store);
    assert.equal(await agent.recovery.recover(), COUNT);
    assert.ok(read.rows <= COUNT * ROWS_EACH, `${read.rows} rows were read for ${COUNT} sessions`);
  },
);

/** At most, for one of these runs: its session, itself and its events are read several times, with plans that may differ. */
const ROWS_EACH = 100;

/** Counts the rows that the works of a store on PostgreSQL read, by the statistics that it keeps of its connection. */
function countRowsRead(t: TestContext, store: Store): { rows: number } {
  const read = { rows: 0 };
  const { write } = store;
  const readSoFar = async (tx: Tx): Promise<number> => {
    const { rows } = await sql<{ count: number }>`
      select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint as count
      from pg_stat_xact_user_tables where schemaname = current_schema()`.execute(tx.db);
    return rows[0]?.count ?? 0;
  };
  t.mock.method(store, "write", (...[work, options]: Parameters<typeof write>) =>
    write(async (tx) => {
      const before = await readSoFar(tx);
      const value = await work(tx);
      read.rows += (await readSoFar(tx)) - before;
      return value;
    }, options),
  );
  return read;
}

test("gone runs that stood in different ways end as each would alone when they are closed together", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const all = await abandonSessions(store, 6);
  const [plain, stopping, steered, doubled, background, asking] = all as [
    Abandoned,
    Abandoned,
    Abandoned,
    Abandoned,
    Abandoned,
    Abandoned,
  ];
  const second = runRow(doubled.sessionId, { id: createId("run"), owner: OWNER, input: "{}" });
  const notifying = { prompt: [], settings: {}, answerable: false, notifySessionId: plain.sessionId };
  await store.write(async (tx) => {
    await tx.update("runs", { id: stopping.runId }, { status: "stopping", stop_requested: 1 });
    await tx.insert("runs", [second]);
    await tx.update(
      "runs",
      { id: background.runId },
      { kind: "background", input: JSON.stringify(notifying) },
    );
    await tx.insert("questions", [{ ...question, run_id: asking.runId, session_id: asking.sessionId }]);
    await store.journal.append(tx, steered.sessionId, [
      runEvent(steered.runId, "run.steer_accepted", { steer_id: "str_1", text: "faster" }),
    ]);
    await store.journal.append(tx, doubled.sessionId, [
      runEvent(second.id, "message.delta", { message_id: "msg_2", delta: "the other answer" }),
    ]);
  });
  assert.equal(await agent.recovery.recover(), 6);
  const endOf = async ({ runId }: { readonly runId: string }) => {
    const events = await store.journal.read({ runId });
    return events.filter(({ type }) => /^run\.(interrupted|cancelled)$/.test(type));
  };
  for (const one of [plain, steered, doubled, background, asking, { runId: second.id }]) {
    const [end, ...more] = await endOf(one);
    assert.deepEqual([end?.type, more.length], ["run.interrupted", 0]);
    assert.equal((await agent.run(one.runId)).status, "interrupted");
  }
  assert.deepEqual(
    (await endOf(stopping)).map(({ type }) => type),
    ["run.cancelled"],
  );
  assert.equal((await agent.run(stopping.runId)).error, null);
  assert.deepEqual((await endOf(steered))[0]?.data["pending_steer"], ["faster"]);
  assert.equal((await agent.run(steered.runId)).pending_steer, '["faster"]');
  assert.equal((await agent.run(plain.runId)).pending_steer, null);
  const said = JSON.stringify(await agent.transcript(doubled.sessionId));
  assert.match(said, /half an answer/);
  assert.match(said, /the other answer/);
  assert.deepEqual(await agent.deps.questions.open({ runId: asking.runId }), []);
  const told = await store.journal.read({ sessionId: plain.sessionId });
  assert.equal(told.filter(({ type }) => type === "background.complete").length, 1);
  await assertNumbered(agent, [...all, { sessionId: doubled.sessionId, runId: second.id }]);
});

for (const fault of ["refused", "undone", "unanswered"] as const) {
  test(`a batch whose write is ${fault} is settled once by the next round, and its numbers have no gap`, async (t) => {
    await using agent = await createTestAgent();
    const all = await abandonSessions(agent.store, 70);
    const writes = failWrites(t as TestContext, agent.store);
    writes.begin((write) => (write === 1 ? fault : undefined));
    await assert.rejects(agent.recovery.recover(), { code: "state_store_unavailable" });
    writes.begin(() => undefined);
    await agent.recovery.recover();
    for (const { runId } of all) {
      const events = await agent.store.journal.read({ runId });
      assert.equal(events.filter(({ type }) => type === "run.interrupted").length, 1);
    }
    await assertNumbered(agent, all);
  });
}

test("sessions of a batch that another process took first are left to it", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  const all = await abandonSessions(store, 5);
  const [taken] = all as [Abandoned, ...Abandoned[]];
  // Late to renew it, and still its own.
  const later = { lease_owner: "elsewhere:1:abc", lease_until: 1 };
  const rows = await store.read.selectFrom("sessions").selectAll().execute();
  await store.write((tx) => tx.update("sessions", { id: taken.sessionId }, later));
  // What was read before says that all five are GHOST's.
  assert.ok(rows.every(({ lease_owner: owner }) => owner === GHOST));
  await agent.recovery.settle(rows);
  assert.equal((await agent.run(taken.runId)).status, "running");
  assert.equal((await store.journal.read({ runId: taken.runId })).length, 3);
  for (const { runId } of all.slice(1)) assert.equal((await agent.run(runId)).status, "interrupted");
});
