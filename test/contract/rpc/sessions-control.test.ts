import assert from "node:assert/strict";
import { startTestService } from "../../harness/service.ts";
import { gatedScript, openSession, rpcScenario, takeTurn, type RpcSetting } from "./scenario.ts";

rpcScenario(
  ["session.interrupt", "event message.complete"],
  "the running turn ends as interrupted with its text; the queue continues, or is cleared",
  async (host, { play }) => {
    play(({ user, signal }) => ({
      text: (async function* () {
        yield `heard ${user}`;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      })(),
    }));
    const id = await openSession(host);
    assert.deepEqual(await host.result("session.interrupt", { session_id: id }), {
      status: "not_interrupted",
    });
    const turns: string[] = [];
    for (const text of ["one", "two", "three", "four"]) {
      turns.push((await host.result("prompt.submit", { session_id: id, text })).turn_id);
    }
    await host.event("message.delta");
    const stopped = await host.result("session.interrupt", { session_id: id });
    assert.deepEqual(stopped, { status: "interrupted", turn_id: turns[0] });
    const cut = await host.event("message.complete");
    assert.deepEqual(
      [cut.payload.status, cut.payload.text, cut.payload.partial],
      ["interrupted", "heard one", true],
    );
    await host.event("message.delta", ({ turn_id }) => turn_id === turns[1]);
    const waiting = await host.result("session.interrupt", { session_id: id, turn_id: turns[2] });
    assert.deepEqual(waiting, { status: "interrupted", turn_id: turns[2] });
    const rest = await host.result("session.interrupt", { session_id: id, clear_queue: true });
    assert.deepEqual(rest, { status: "interrupted", turn_id: turns[1], cleared: 1 });
    await host.event("message.complete", ({ turn_id }) => turn_id === turns[1]);
    await host.event("session.info", ({ payload }) => payload.running === false);
  },
);

rpcScenario(
  "session.interrupt",
  "turns of other sessions cannot be stopped through this session",
  async (host, { play }) => {
    const waits = gatedScript();
    play(waits.script);
    const [one, two] = [await openSession(host), await openSession(host)];
    const { turn_id } = await host.result("prompt.submit", { session_id: two, text: "hi" });
    for (const wanted of [turn_id, "turn_nothing"]) {
      const answer = await host.result("session.interrupt", { session_id: one, turn_id: wanted });
      assert.deepEqual(answer, { status: "not_interrupted" });
    }
    waits.open();
    assert.equal((await host.event("message.complete")).payload.status, "complete");
  },
);

rpcScenario(
  ["session.steer", "event tool.start"],
  {
    title: "text reaches the running turn at its next step; an idle session rejects it",
    script: ({ step, messages }) =>
      step === 0
        ? { calls: [{ tool: "probe", input: { command: "echo wait" } }] }
        : { text: messages.flatMap((message) => (message.role === "user" ? [message.text] : [])).join("; ") },
    probe: async (_input, { signal }) => {
      await Promise.race([go.promise, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
      return "waited";
    },
  },
  async (host) => {
    const id = await openSession(host);
    const idle = await host.result("session.steer", { session_id: id, text: "also" });
    assert.deepEqual(idle, { status: "rejected", text: "also", reason: "idle" });
    const { turn_id } = await host.result("prompt.submit", { session_id: id, text: "one" });
    await host.event("tool.start");
    const other = await host.result("session.steer", { session_id: id, text: "also", turn_id: "turn_other" });
    assert.equal(other.status, "rejected");
    const taken = await host.result("session.steer", { session_id: id, text: "also", turn_id });
    assert.deepEqual(taken, { status: "queued", text: "also" });
    go.resolve();
    go = Promise.withResolvers<void>();
    assert.equal((await host.event("message.complete")).payload.text, "one; also");
  },
);
let go = Promise.withResolvers<void>();

rpcScenario(
  ["session.steer", "event message.complete"],
  "text that comes too late for a step is returned with the end of the turn",
  async (host, { play }) => {
    const waits = gatedScript();
    play(waits.script);
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "one" });
    await waits.waiting(1);
    assert.equal((await host.result("session.steer", { session_id: id, text: "late" })).status, "queued");
    await host.result("session.interrupt", { session_id: id });
    const { payload } = await host.event("message.complete");
    assert.deepEqual(payload.undelivered_steer, ["late"]);
  },
);

rpcScenario(
  ["session.steer 4001", "session.steer 4002"],
  "an unknown session, or empty text",
  async (host) => {
    await host.error("session.steer", { session_id: "nowhere", text: "also" }, 4001);
    await host.error("session.steer", { session_id: await openSession(host), text: " " }, 4002);
  },
);

/** Puts a turn to work in a session by a second process on the same database. */
async function workElsewhere({ service, owner }: RpcSetting, id: string) {
  const waits = gatedScript();
  const other = await startTestService({ like: service, script: waits.script });
  const { runs } = other.service;
  await runs.submit({
    address: { owner, id },
    seed: { source: "tui" },
    kind: "run",
    input: { prompt: [{ role: "user", text: "elsewhere" }], settings: {}, answerable: true },
  });
  await waits.waiting(1);
  return { open: waits.open, [Symbol.asyncDispose]: () => other.service.stop({ graceMs: 0 }) };
}

rpcScenario(
  ["session.steer", "session.interrupt"],
  "a turn in another process is shown, steered and stopped like one in this process",
  async (host, setting) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    const from = host.frames.length;
    await using _ = await workElsewhere(setting, id);
    const { turn_id } = await host.event("message.start", undefined, from);
    const { state } = await host.result("session.status", { session_id: id });
    assert.deepEqual([state.running, state.turn_id], [true, turn_id]);
    const steered = await host.result("session.steer", { session_id: id, text: "also" });
    assert.deepEqual(steered, { status: "queued", text: "also" });
    const asked = { session_id: id, text: "and that", when_busy: "steer", client_turn_id: "c1" };
    assert.deepEqual(await host.result("prompt.submit", asked), { status: "steered", turn_id });
    assert.equal((await host.result("prompt.submit", asked)).duplicate, true);
    const stopped = await host.result("session.interrupt", { session_id: id });
    assert.deepEqual(stopped, { status: "interrupted", turn_id });
    const { payload } = await host.event("message.complete", (event) => event.turn_id === turn_id);
    assert.deepEqual([payload.status, payload.undelivered_steer], ["interrupted", ["also", "and that"]]);
  },
);

rpcScenario(
  "prompt.submit",
  "when_busy interrupt stops a turn in another process, which then runs the prompt",
  async (host, setting) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    const from = host.frames.length;
    await using elsewhere = await workElsewhere(setting, id);
    const first = await host.event("message.start", undefined, from);
    const asked = { session_id: id, text: "now", when_busy: "interrupt" };
    const { status, turn_id } = await host.result("prompt.submit", asked);
    assert.equal(status, "queued");
    const cut = await host.event("message.complete", (event) => event.turn_id === first.turn_id);
    assert.equal(cut.payload.status, "interrupted");
    await host.event("message.start", (event) => event.turn_id === turn_id);
    elsewhere.open();
    const next = await host.event("message.complete", (event) => event.turn_id === turn_id);
    assert.equal(next.payload.text, "heard now");
  },
);
