import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { runEvent, MERGE_MS, EventWriter } from "../../../src/agent/run/event.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";
import { failWrites, faults } from "../../harness/failing-store.ts";

const delta = (runId: string, text: string, messageId = "msg_1") =>
  runEvent(runId, "message.delta", { message_id: messageId, delta: text });
const thought = (runId: string, text: string) => runEvent(runId, "reasoning.delta", { delta: text });
const completed = (runId: string, text: string) =>
  runEvent(runId, "message.completed", { message_id: "msg_1", text });

/** How runs end here. */
const ending = (runId: string) => ({ status: "completed", set: {}, event: completed(runId, "end") });

/** A recorder of a run that an agent finished and that is open again, on a clock of its own. */
async function createRecorder(agent: TestAgent) {
  const { runId, sessionId } = await agent.submit("hi");
  const before = (await agent.events(runId)).length;
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const { store } = agent;
  const lease = { lease_owner: store.owner, lease_until: Number.MAX_SAFE_INTEGER };
  await store.write(async (tx) => {
    await tx.update("sessions", { id: sessionId }, lease);
    await tx.update("runs", { id: runId }, { ended_at: null });
  });
  const recorder = new EventWriter({
    store,
    clock,
    sessionId,
    runId,
    onFailure: (error) => void failures.push(error),
  });
  const finish = () =>
    recorder.finish(
      async () => ending(runId),
      async () => "made",
    );
  const written = async () =>
    (await store.journal.read({ runId }, { after: before })).map((event) => ({
      type: event.type,
      text: event.data["delta"] ?? event.data["text"],
    }));
  const isKept = async (text: string) =>
    (await agent.transcript(sessionId)).some((message) => message.role === "user" && message.text === text);
  return { recorder, runId, clock, failures, finish, written, isKept };
}

/** What each write from now on says about syncing to disk. */
function watchWrites(t: TestContext, { store }: TestAgent): readonly unknown[] {
  const synced: unknown[] = [];
  const { write } = store;
  t.mock.method(store, "write", (...args: Parameters<typeof write>) => {
    synced.push(args[1]?.durable ?? "by default");
    return write(...args);
  });
  return synced;
}

/** Keeps writes with such options from beginning until the returned function is called. */
function holdWrites(
  t: TestContext,
  { store }: TestAgent,
  isHeld: (options: Parameters<TestAgent["store"]["write"]>[1]) => boolean,
): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { write } = store;
  t.mock.method(store, "write", async (...args: Parameters<typeof write>) => {
    if (isHeld(args[1])) await promise;
    return write(...args);
  });
  return resolve;
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test("the first delta goes at once, and those that follow within the tick go as one", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, clock, finish, written } = await createRecorder(agent);
  recorder.event(delta(runId, "a"));
  while ((await written()).length < 1) await nextTurn();
  for (const letter of "bcdef") recorder.event(delta(runId, letter));
  assert.deepEqual(await written(), [{ type: "message.delta", text: "a" }]);
  clock.tick(MERGE_MS);
  await finish();
  assert.deepEqual(
    (await written()).map(({ text }) => text),
    ["a", "bcdef", "end"],
  );
});

test("deltas are merged up to 16 KiB, so that a reader holds no more for one event", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, finish, written } = await createRecorder(agent);
  for (let i = 0; i < 10; i++) recorder.event(delta(runId, "x".repeat(5_000)));
  await finish();
  const lengths = (await written()).slice(0, -1).map(({ text }) => String(text).length);
  assert.deepEqual(lengths, [15_000, 15_000, 15_000, 5_000]);
});

test("only neighbours of the same kind and the same message become one", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, finish, written } = await createRecorder(agent);
  for (const event of [
    delta(runId, "a"),
    delta(runId, "b"),
    delta(runId, "c", "msg_2"),
    thought(runId, "d"),
    thought(runId, "e"),
    delta(runId, "f", "msg_2"),
    completed(runId, "abc"),
    delta(runId, "g", "msg_2"),
  ]) {
    recorder.event(event);
  }
  assert.equal(await finish(), "made");
  const all = await written();
  assert.equal(
    all
      .map(({ text }) => text)
      .join("|")
      .replace("a|b", "ab"),
    "ab|c|de|f|abc|g|end",
  );
});

test("thousands of deltas lose no letter and keep their order", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, clock, finish, written } = await createRecorder(agent);
  let expected = "";
  for (let i = 0; i < 3000; i++) {
    expected += `${i},`;
    recorder.event(delta(runId, `${i},`));
    if (i % 100 === 0) {
      clock.tick(MERGE_MS);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await finish();
  const texts = (await written()).map(({ text }) => text);
  assert.equal(texts.slice(0, -1).join(""), expected);
  assert.ok(texts.length < 100, `${texts.length} events for 3000 deltas`);
});

test("deltas alone may be lost in a crash: messages, what is flushed and the end are synced to disk", async (t) => {
  await using agent = await createTestAgent();
  const { recorder, runId, finish, written, isKept } = await createRecorder(agent);
  const synced = watchWrites(t, agent);
  recorder.event(delta(runId, "a"));
  while ((await written()).length < 1) await nextTurn();
  recorder.messages([{ role: "user", text: "kept" }]);
  while (!(await isKept("kept"))) await nextTurn();
  recorder.event(delta(runId, "b"));
  await recorder.flush();
  await finish();
  assert.deepEqual(synced, [false, true, true, "by default"]);
});

test("what has to be safe does not go with a write that was begun before and is not synced", async (t) => {
  await using agent = await createTestAgent();
  const { recorder, runId, finish, written, isKept } = await createRecorder(agent);
  const synced = watchWrites(t, agent);
  recorder.event(runEvent(runId, "run.steer_accepted", { steer_id: "str_1", text: "be brief" }));
  await recorder.flush();
  assert.deepEqual([synced.at(-1), (await written()).length], [true, 1]);
  recorder.event(delta(runId, "a"));
  recorder.messages([{ role: "user", text: "kept" }]);
  while (!(await isKept("kept"))) await nextTurn();
  assert.deepEqual([synced.at(-1), (await written()).length], [true, 2]);
  await finish();
});

test("a model has to wait while more than 128 KiB of text waits to be stored, and no longer", async (t) => {
  await using agent = await createTestAgent();
  const { recorder, runId, finish } = await createRecorder(agent);
  const release = holdWrites(t, agent, () => true);
  const fill = () => {
    for (let pieces = 1; ; pieces++) {
      recorder.event(delta(runId, "x".repeat(10_000)));
      if (recorder.drain()) return pieces;
    }
  };
  assert.equal(fill(), 14);
  release();
  await recorder.drain();
  assert.equal(recorder.drain(), undefined);
  await finish();
});

for (const [what, end] of [
  ["is finished", (_: EventWriter, finish: () => Promise<unknown>) => void finish()],
  ["is given to another process", (recorder: EventWriter) => recorder.abandon()],
] as const) {
  test(`a model does not wait for the store once the run ${what}`, async (t) => {
    await using agent = await createTestAgent();
    const { recorder, runId, finish } = await createRecorder(agent);
    const release = holdWrites(t, agent, () => true);
    recorder.event(delta(runId, "x".repeat(200_000)));
    const waiting = recorder.drain();
    assert.ok(waiting);
    end(recorder, finish);
    await waiting;
    release();
    await recorder.flush();
  });
}

test("a model does not wait for a store that failed", async (t) => {
  await using agent = await createTestAgent();
  const { recorder, runId, failures } = await createRecorder(agent);
  failWrites(t, agent.store).begin(() => "refused");
  recorder.event(delta(runId, "x".repeat(200_000)));
  await recorder.drain();
  assert.equal(failures.length, 1);
  assert.equal(recorder.drain(), undefined);
});

for (const stops of [false, true]) {
  const what = stops ? "the run can be stopped meanwhile" : "the run goes on when the store does";
  test(`an answer is read no faster than it is stored, and ${what}`, async (t) => {
    let read = 0;
    async function* answer() {
      while (read < 100) yield `${++read} `.padEnd(10_000, "x");
    }
    await using agent = await createTestAgent({ script: () => ({ text: answer() }) });
    const release = holdWrites(t, agent, (options) => options?.durable === false);
    const { runId } = await agent.submit("hi");
    await agent.event(runId, "run.started");
    while (read < 14) await nextTurn();
    for (let turn = 0; turn < 500; turn++) await nextTurn();
    assert.equal(read, 14, "pieces of 10 kB, of which 128 KiB may wait");
    if (stops) await agent.runs.stop(runId, "enough");
    else release();
    const last = (await agent.events(runId)).at(-1);
    assert.equal(last?.type, stops ? "run.cancelled" : "run.completed");
    // The loop over the answer pulls one more piece before it sees that the run is stopped.
    assert.equal(read, stops ? 15 : 100);
    release();
  });
}

test("after the finish nothing more is taken, and no timer is left", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, clock, finish, written } = await createRecorder(agent);
  recorder.event(delta(runId, "a"));
  recorder.event(delta(runId, "b"));
  await finish();
  recorder.event(delta(runId, "too late"));
  clock.tick(10 * MERGE_MS);
  assert.equal(clock.pending, 0);
  const texts = (await written()).map(({ text }) => text).join("");
  assert.equal(texts, "abend");
});

test("a finish that learns that the run is another's writes nothing of what was left", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, written } = await createRecorder(agent);
  recorder.messages([{ role: "user", text: "too late" }]);
  await agent.store.write((tx) => tx.update("runs", { id: runId }, { ended_at: tx.nowMs }));
  let then = 0;
  const result = await recorder.finish(
    async () => ending(runId),
    async () => ++then,
    async () => -1,
  );
  assert.deepEqual([result, then, await written()], [-1, 0, []]);
});

test("a journal that cannot be written is reported, and the caller gets no exception", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, failures, finish } = await createRecorder(agent);
  await agent.store.close();
  recorder.event(delta(runId, "a"));
  while (failures.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(finish());
});

for (const fault of faults) {
  test(`what a failed write held (${fault}) goes with the end, once, with its messages and in its order`, async (t) => {
    await using agent = await createTestAgent();
    const { recorder, runId, failures, finish, written, isKept } = await createRecorder(agent);
    const before = (await agent.transcript((await agent.run(runId)).session_id)).length;
    const writes = failWrites(t, agent.store);
    writes.begin((write) => (write === 1 ? fault : undefined));
    recorder.event(completed(runId, "a"));
    recorder.messages([{ role: "user", text: "kept" }]);
    while (failures.length === 0) await nextTurn();
    recorder.event(completed(runId, "b"));
    await finish();
    assert.deepEqual(
      (await written()).map(({ text }) => text),
      ["a", "b", "end"],
    );
    assert.equal(await isKept("kept"), true);
    const after = await agent.transcript((await agent.run(runId)).session_id);
    assert.equal(after.length, before + 1);
  });

  test(`messages alone whose write failed (${fault}) are in the transcript once`, async (t) => {
    await using agent = await createTestAgent();
    const { recorder, runId, failures, finish } = await createRecorder(agent);
    const sessionId = (await agent.run(runId)).session_id;
    const before = (await agent.transcript(sessionId)).length;
    const writes = failWrites(t, agent.store);
    writes.begin((write) => (write === 1 ? fault : undefined));
    recorder.messages([{ role: "user", text: "kept" }]);
    while (failures.length === 0) await nextTurn();
    await finish();
    assert.equal((await agent.transcript(sessionId)).length, before + 1);
  });
}

test("a finish that fails can be tried again, and nothing of what was left is lost", async (t) => {
  await using agent = await createTestAgent();
  const { recorder, runId, clock, finish, written } = await createRecorder(agent);
  const writes = failWrites(t, agent.store);
  recorder.event(delta(runId, "a"));
  while ((await written()).length < 1) await nextTurn();
  recorder.event(delta(runId, "b"));
  writes.begin((write) => (write === 1 ? "refused" : undefined));
  await assert.rejects(finish(), { code: "state_store_unavailable" });
  await finish();
  clock.tick(10 * MERGE_MS);
  assert.deepEqual(
    (await written()).map(({ text }) => text),
    ["a", "b", "end"],
  );
});

test("a step is not written into a session that another process has taken over", async () => {
  await using agent = await createTestAgent();
  const { recorder, runId, failures } = await createRecorder(agent);
  const { session_id: id } = await agent.run(runId);
  const before = (await agent.transcript(id)).length;
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id }, { lease_owner: "other" })));
  recorder.messages([{ role: "user", text: "too late" }]);
  while (failures.length === 0) await nextTurn();
  assert.equal((await agent.transcript(id)).length, before);
});

test("a run whose journal fails is stopped by the engine's signal", async () => {
  const stopped = Promise.withResolvers<string>();
  await using agent = await createTestAgent({
    script: ({ signal }) => {
      signal.addEventListener("abort", () => stopped.resolve(signal.reason.kind));
      return { text: words(signal) };
    },
  });
  async function* words(signal: AbortSignal) {
    yield "kept ";
    await agent.store.close();
    while (!signal.aborted) {
      yield "lost ";
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
  await agent.submit("hi");
  assert.equal(await stopped.promise, "failure");
});
