import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestAgent, testTool } from "../../harness/agent.ts";
import { createTestGateway, essence, TestGateway } from "../../harness/rpc-host.ts";

/** A script whose turns wait until the test lets them go. */
function gated() {
  const gates: PromiseWithResolvers<void>[] = [];
  const script = async ({ user, signal }: { user: string; signal: AbortSignal }) => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    signal.addEventListener("abort", () => gate.resolve(), { once: true });
    await gate.promise;
    return { text: `heard ${user}` };
  };
  return { script, open: () => gates.forEach((gate) => gate.resolve()), gates };
}

test("a prompt to a busy session waits, appears in session.queue and starts with origin queue", async () => {
  const { script, open, gates } = gated();
  await using gateway = await createTestGateway({ script });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const first = await host.call("prompt.submit", { session_id: id, text: "one" });
  assert.equal(first.status, "streaming");
  const second = await host.call("prompt.submit", { session_id: id, text: "two" });
  assert.deepEqual([second.status, second.queue_position], ["queued", 1]);
  const queue = await host.until(() =>
    host.events.find((event) => event.type === "session.queue" && event.payload.queued.length > 0),
  );
  assert.deepEqual(queue.payload, { queued: [{ turn_id: second.turn_id, text_preview: "two" }] });
  await host.until(() => gates[0]);
  gates[0]?.resolve();
  await host.until(() =>
    host.events.filter(({ type }) => type === "message.start").length === 2 ? true : undefined,
  );
  const starts = host.events.filter((event) => event.type === "message.start");
  assert.deepEqual(
    starts.map(({ payload }) => (payload as { origin: string }).origin),
    ["user", "queue"],
  );
  for (;;) {
    open();
    if (host.events.filter(({ type }) => type === "message.complete").length === 2) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
});

test("when_busy reject answers 4009 with the words session busy", async () => {
  const { script } = gated();
  await using gateway = await createTestGateway({ script });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "one" });
  const error = await host.fails("prompt.submit", { session_id: id, text: "two", when_busy: "reject" });
  assert.equal(error.code, 4009);
  assert.match(error.message, /session busy/);
});

test("when_busy steer adds the text to the running turn", async () => {
  const { script } = gated();
  await using gateway = await createTestGateway({ script });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const first = await host.call("prompt.submit", { session_id: id, text: "one" });
  const again = { session_id: id, text: "also", when_busy: "steer", client_turn_id: "c1" };
  const steered = await host.call("prompt.submit", again);
  assert.deepEqual(steered, { status: "steered", turn_id: first.turn_id });
  const repeated = await host.call("prompt.submit", again);
  assert.equal(repeated.duplicate, true);
});

test("interrupt ends the turn with message.complete interrupted and its text so far", async () => {
  const said = Promise.withResolvers<void>();
  const script = ({ signal }: { signal: AbortSignal }) => ({
    text: (async function* () {
      yield "half ";
      said.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    })(),
  });
  await using gateway = await createTestGateway({ script });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const { turn_id } = await host.call("prompt.submit", { session_id: id, text: "one" });
  await said.promise;
  await host.event("message.delta");
  const stopped = await host.call("session.interrupt", { session_id: id });
  assert.deepEqual(stopped, { status: "interrupted", turn_id });
  const { payload } = await host.event("message.complete");
  assert.deepEqual([payload.status, payload.text, payload.partial], ["interrupted", "half ", true]);
  await host.ended();
  const idle = await host.call("session.interrupt", { session_id: id, clear_queue: true });
  assert.deepEqual(idle, { status: "not_interrupted", cleared: 0 });
});

test("a client_turn_id makes one turn, across connections; with another text it is a conflict", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const asked = { session_id: id, text: "one", client_turn_id: "c1" };
  const [a, b] = await Promise.all([host.call("prompt.submit", asked), host.call("prompt.submit", asked)]);
  assert.equal(a.turn_id, b.turn_id);
  host.leave();
  const other = gateway.host();
  const again = await other.call("prompt.submit", asked);
  assert.deepEqual([again.turn_id, again.duplicate], [a.turn_id, true]);
  const error = await other.fails("prompt.submit", { ...asked, text: "two" });
  assert.deepEqual([error.code, error.data?.reason], [4031, "client_turn_id_conflict"]);
});

test("empty text is 4012; a missing image is 4016", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  assert.equal((await host.fails("prompt.submit", { session_id: id, text: " " })).code, 4012);
  const named = { session_id: id, text: "see", images: ["/nowhere/a.png"] };
  assert.equal((await host.fails("prompt.submit", named)).code, 4016);
  assert.equal((await host.fails("prompt.background", { session_id: id, text: "" })).code, 4012);
});

test("a truncation needs a confirmation, removes prompts, and fails for an unknown prompt", async () => {
  await using gateway = await createTestGateway({ script: ({ user }) => ({ text: `heard ${user}` }) });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  for (const text of ["one", "two"]) {
    const from = host.events.length;
    await host.call("prompt.submit", { session_id: id, text });
    await host.ended(from);
  }
  const edit = { session_id: id, text: "zwei", truncate_before_user_ordinal: 1 };
  assert.equal((await host.fails("prompt.submit", edit)).code, 4029);
  assert.equal((await host.fails("prompt.submit", { ...edit, truncate_before_user_ordinal: 0 })).code, 4028);
  assert.equal((await host.fails("prompt.submit", { ...edit, truncate_before_user_ordinal: 5 })).code, 4018);
  const from = host.events.length;
  await host.call("prompt.submit", { ...edit, confirm_truncate: true });
  await host.ended(from);
  const { messages } = await host.call("session.history", { session_id: id });
  assert.deepEqual(
    messages.map(({ text }) => text),
    ["one", "heard one", "zwei", "heard zwei"],
  );
});

test("two hosts get the same events; one that leaves ends nothing", async () => {
  const { script, gates } = gated();
  await using gateway = await createTestGateway({ script });
  const [one, two] = [gateway.host(), gateway.host()];
  const { session_id: id } = await one.call("session.create");
  await two.call("session.activate", { session_id: id });
  await one.call("prompt.submit", { session_id: id, text: "hello" });
  await one.event("message.start");
  await two.event("message.start");
  const heard = one.events.length;
  one.leave();
  await two.until(() => gates[0]);
  gates[0]?.resolve();
  await two.ended();
  const shared = essence(two.events).slice(0, essence(one.events).length);
  assert.deepEqual(essence(one.events.slice(0, heard)), shared);
  assert.equal((await two.event("message.complete")).payload.status, "complete");
});

test("prompt.background answers with a task and reports its end", async () => {
  await using gateway = await createTestGateway({ script: () => ({ text: "found" }) });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const { task_id } = await host.call("prompt.background", { session_id: id, text: "look" });
  const { payload } = await host.event("background.complete");
  assert.deepEqual(payload, { task_id, text: "found", status: "complete" });
});

test("a turn whose process died ends once, and the cursor continues after a restart", async () => {
  const waits = testTool(
    (_input, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", reject)),
  );
  const first = await createTestAgent({
    tools: [waits],
    script: () => ({ text: ["so far ", "more"], delayMs: 30_000 }),
  });
  const before = new TestGateway(first);
  const host = before.host();
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "one" });
  const start = await host.event("message.start");
  // Its lease runs out, as when the process is gone.
  await first.store.write((tx) => tx.update("sessions", { id }, { lease_owner: "gone:1:x", lease_until: 1 }));
  const agent = await createTestAgent({ database: first.databaseUrl });
  await agent.core.start();
  await using after = new TestGateway(agent);
  const other = after.host();
  assert.equal((await other.fails("session.history", { session_id: id })).data?.reason, "not_live");
  const cursor = { epoch: agent.store.epoch, last_seen: start.seq };
  const view = await other.call("session.resume", { session_id: id, cursor });
  assert.equal(view.truncated, false);
  const complete = await other.event("message.complete");
  assert.equal(complete.turn_id, start.turn_id);
  assert.equal(complete.payload.status, "interrupted");
  await other.ended();
  assert.equal(other.events.filter(({ type }) => type === "message.complete").length, 1);
  await before[Symbol.asyncDispose]();
});

test("the answer to prompt.submit precedes message.start, however late it is", async () => {
  await using gateway = await createTestGateway({ script: () => ({ text: "done" }) });
  const [host, witness] = [gateway.host(), gateway.host()];
  const { session_id } = await host.call("session.create");
  await witness.call("session.activate", { session_id });
  const { runs } = gateway.agent.core;
  const submit = runs.submit.bind(runs);
  runs.submit = async (prompt) => {
    const submitted = await submit(prompt);
    // The turn is over, and everybody else has heard of it, before there is an answer.
    await witness.ended();
    return submitted;
  };
  const answer = await host.send("prompt.submit", { session_id, text: "go" });
  await host.ended();
  const types = host.frames.slice(host.frames.indexOf(answer) + 1).flatMap(({ method, params }) => {
    return method === "event" ? [(params as { readonly type: string }).type] : [];
  });
  assert.ok(types.includes("message.start"), types.join(", "));
});
