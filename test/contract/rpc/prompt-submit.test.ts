import assert from "node:assert/strict";
import { gatedScript, openSession, rpcScenario, takeTurn } from "./scenario.ts";

/** The smallest picture there is: PNG, 1 x 1. */
const PICTURE =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

rpcScenario(
  ["prompt.submit", "event message.start", "event message.complete"],
  "the answer precedes message.start, and message.complete ends the turn",
  async (host) => {
    const id = await openSession(host);
    const { status, turn_id } = await host.result("prompt.submit", { session_id: id, text: "hi" });
    assert.equal(status, "streaming");
    const complete = await host.event("message.complete");
    assert.deepEqual(
      [complete.turn_id, complete.payload.status, complete.payload.text],
      [turn_id, "complete", "hello"],
    );
    const answered = host.frames.findIndex(({ result }) => result?.turn_id === turn_id);
    const started = host.frames.findIndex(({ params }) => params?.type === "message.start");
    assert.ok(answered < started);
  },
);

rpcScenario(
  ["prompt.submit", "event session.queue"],
  "without when_busy it is queued after the current turn",
  async (host, { play }) => {
    const waits = gatedScript();
    play(waits.script);
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "one" });
    const second = await host.result("prompt.submit", { session_id: id, text: "two" });
    assert.deepEqual([second.status, second.queue_position], ["queued", 1]);
    const queue = await host.event("session.queue", ({ payload }) => payload.queued.length === 1);
    assert.deepEqual(queue.payload.queued, [{ turn_id: second.turn_id, text_preview: "two" }]);
    waits.open();
    const { payload } = await host.event("message.complete", ({ turn_id }) => turn_id === second.turn_id);
    assert.equal(payload.text, "heard two");
    const start = await host.event("message.start", ({ turn_id }) => turn_id === second.turn_id);
    assert.equal(start.payload.origin, "queue");
  },
);

rpcScenario(
  "prompt.submit",
  { title: "queued is the same as when_busy queue, whatever else is asked", script: gatedScript().script },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "one" });
    const asked = { session_id: id, text: "two", when_busy: "reject", queued: true };
    assert.equal((await host.result("prompt.submit", asked)).status, "queued");
  },
);

rpcScenario(
  "prompt.submit 4009",
  { title: "when_busy reject on a busy session says session busy", script: gatedScript().script },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "one" });
    const error = await host.error(
      "prompt.submit",
      { session_id: id, text: "two", when_busy: "reject" },
      4009,
    );
    assert.match(error.message, /session busy/);
    assert.equal(error.data.reason, "session_busy");
  },
);

rpcScenario(
  "prompt.submit",
  { title: "when_busy interrupt ends the running turn, and its own follows", script: interruptible() },
  async (host) => {
    const id = await openSession(host);
    const first = await host.result("prompt.submit", { session_id: id, text: "wait" });
    await host.event("message.start");
    const asked = { session_id: id, text: "now", when_busy: "interrupt" };
    const second = await host.result("prompt.submit", asked);
    assert.equal(second.status, "queued");
    const cut = await host.event("message.complete", ({ turn_id }) => turn_id === first.turn_id);
    assert.equal(cut.payload.status, "interrupted");
    const next = await host.event("message.complete", ({ turn_id }) => turn_id === second.turn_id);
    assert.deepEqual([next.payload.status, next.payload.text], ["complete", "heard now"]);
  },
);

/** A turn that is asked to wait does so until it is stopped. */
function interruptible() {
  return async ({ user, signal }: { readonly user: string; readonly signal: AbortSignal }) => {
    if (user === "wait") await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return { text: `heard ${user}` };
  };
}

rpcScenario(
  "prompt.submit",
  {
    title: "when_busy steer adds to the running turn, once for each client_turn_id",
    // The model gets what was said to it at its second step.
    script: ({ step, messages }) =>
      step === 0
        ? { calls: [{ tool: "probe", input: { command: "echo wait" } }] }
        : { text: messages.flatMap((message) => (message.role === "user" ? [message.text] : [])).join("; ") },
    probe: async (_input, { signal }) => {
      await Promise.race([
        steered.promise,
        new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ]);
      return "waited";
    },
  },
  async (host) => {
    const id = await openSession(host);
    const first = await host.result("prompt.submit", { session_id: id, text: "one" });
    await host.event("tool.start");
    const asked = { session_id: id, text: "also", when_busy: "steer", client_turn_id: "c1" };
    assert.deepEqual(await host.result("prompt.submit", asked), {
      status: "steered",
      turn_id: first.turn_id,
    });
    assert.deepEqual(await host.result("prompt.submit", asked), {
      status: "steered",
      turn_id: first.turn_id,
      duplicate: true,
    });
    const plain = { session_id: id, text: "and that", when_busy: "steer" };
    assert.equal((await host.result("prompt.submit", plain)).status, "steered");
    steered.resolve();
    const { payload } = await host.event("message.complete");
    assert.equal(payload.text, "one; also; and that");
    await host.event("session.info", ({ payload: { running } }) => running === false);
    const late = await host.result("prompt.submit", { ...asked, client_turn_id: "c2", text: "late" });
    assert.equal(late.status, "streaming", "a session at rest takes it as a prompt");
    steered = Promise.withResolvers<void>();
  },
);
let steered = Promise.withResolvers<void>();

rpcScenario(
  ["prompt.submit", "prompt.submit 4031"],
  "a client_turn_id starts one turn, over any connection; with another text it is a conflict",
  async (host, { connect }) => {
    const id = await openSession(host);
    const asked = { session_id: id, text: "one", client_turn_id: "c1" };
    const [a, b] = await Promise.all([
      host.result("prompt.submit", asked),
      host.result("prompt.submit", asked),
    ]);
    assert.equal(a.turn_id, b.turn_id);
    assert.equal([a, b].filter(({ duplicate }) => duplicate).length, 1);
    const other = await connect();
    const again = await other.result("prompt.submit", asked);
    assert.deepEqual([again.turn_id, again.duplicate], [a.turn_id, true]);
    const error = await other.error("prompt.submit", { ...asked, text: "two" }, 4031);
    assert.equal(error.data.reason, "client_turn_id_conflict");
    await host.event("message.complete");
    assert.equal((await host.result("session.history", { session_id: id })).count, 2);
  },
);

rpcScenario(
  ["prompt.submit", "prompt.submit 4016"],
  {
    title: "images are attached to the prompt; a missing one is refused with the whole prompt",
    script: ({ messages }) => {
      const last = messages.at(-1);
      return { text: last?.role === "user" ? `${last.text}: ${last.attachments?.length ?? 0}` : "" };
    },
  },
  async (host) => {
    const id = await openSession(host);
    await host.result("image.attach_bytes", {
      session_id: id,
      data: PICTURE.split(",")[1],
      filename: "a.png",
    });
    await host.error("prompt.submit", { session_id: id, text: "see", images: ["/nowhere/a.png"] }, 4016);
    await host.result("prompt.submit", { session_id: id, text: "see", images: [PICTURE] });
    const { payload } = await host.event("message.complete");
    assert.equal(payload.text, "see: 2", "what was attached before the refusal rides too");
    assert.equal((await takeTurn(host, id, "and now")).text, "and now: 0");
  },
);

rpcScenario("prompt.submit 4018", "too many images are refused before any is read", async (host) => {
  const id = await openSession(host);
  const part = { type: "image_url", image_url: { url: PICTURE } };
  const text = Array.from({ length: 33 }, () => part);
  const error = await host.error("prompt.submit", { session_id: id, text }, 4018);
  assert.deepEqual([error.data.reason, error.data.param], ["too_large", "images"]);
});

rpcScenario(
  ["prompt.submit", "prompt.submit 4002"],
  "text may come in parts; unknown parts are refused",
  async (host) => {
    const id = await openSession(host);
    const parts = [
      { type: "text", text: "one" },
      { type: "image_url", image_url: { url: PICTURE } },
      { type: "text", text: "two" },
    ];
    await host.result("prompt.submit", { session_id: id, text: parts });
    const start = await host.event("message.start");
    assert.equal(start.payload.input.text, "one\n\ntwo");
    const error = await host.error("prompt.submit", { session_id: id, text: [{ type: "smell" }] }, 4002);
    assert.equal(error.data.param, "text[0]");
  },
);

rpcScenario("prompt.submit 4012", "an empty prompt is refused", async (host) => {
  const id = await openSession(host);
  for (const text of ["", " \n", []]) await host.error("prompt.submit", { session_id: id, text }, 4012);
});

rpcScenario(
  "prompt.submit 4001",
  "an unknown session, a closed one that was never saved, and a saved one that is not open here",
  async (host, { connect }) => {
    const nowhere = await host.error("prompt.submit", { session_id: "nowhere", text: "hi" }, 4001);
    assert.equal(nowhere.data.reason, "session_not_found");
    const empty = await openSession(host);
    await host.result("session.close", { session_id: empty });
    const closed = await host.error("prompt.submit", { session_id: empty, text: "hi" }, 4001);
    assert.equal(closed.data.reason, "session_not_found");
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    await host.result("session.close", { session_id: id });
    const stored = await host.error("prompt.submit", { session_id: id, text: "hi" }, 4001);
    assert.deepEqual([stored.data.reason, stored.data.stored], ["not_live", true]);
    const stranger = await connect({ owner: "stranger" });
    const others = await stranger.error("prompt.submit", { session_id: id, text: "hi" }, 4001);
    assert.equal(others.data.reason, "session_not_found");
  },
);

rpcScenario(
  ["prompt.submit", "prompt.submit 4018", "prompt.submit 4028", "prompt.submit 4029"],
  { title: "a truncation needs a confirmation, and happens with the prompt or not at all", script: heard },
  async (host) => {
    const id = await openSession(host);
    const texts = async () =>
      (await host.result("session.history", { session_id: id })).messages.map(
        ({ text }: { text: string }) => text,
      );
    await takeTurn(host, id, "one");
    await takeTurn(host, id, "two");
    const whole = ["one", "heard one", "two", "heard two"];
    const edit = { session_id: id, text: "zwei", truncate_before_user_ordinal: 1 };
    await host.error("prompt.submit", edit, 4029);
    await host.error("prompt.submit", { ...edit, truncate_before_user_ordinal: 0 }, 4028);
    await host.error(
      "prompt.submit",
      { ...edit, truncate_before_user_ordinal: 2, confirm_truncate: true },
      4018,
    );
    await host.error("prompt.submit", { ...edit, confirm_truncate: true, text: " " }, 4012);
    const named = { ...edit, confirm_truncate: true, client_turn_id: "c1" };
    await host.error("prompt.submit", { ...named, images: ["/nowhere.png"] }, 4016);
    assert.deepEqual(await texts(), whole, "a refused prompt took something back");
    const taken = await host.result("prompt.submit", named);
    await host.event("message.complete", ({ turn_id }) => turn_id === taken.turn_id);
    assert.equal((await host.result("prompt.submit", named)).duplicate, true);
    assert.deepEqual(await texts(), ["one", "heard one", "zwei", "heard zwei"]);
  },
);

function heard({ user }: { readonly user: string }) {
  return { text: `heard ${user}` };
}

rpcScenario(
  "prompt.submit 4009",
  { title: "a busy session refuses a truncation, whatever when_busy says", script: gatedScript().script },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "one" });
    for (const when_busy of ["queue", "steer", "interrupt"]) {
      const edit = { session_id: id, text: "two", truncate_before_user_ordinal: 0, confirm_truncate: true };
      await host.error("prompt.submit", { ...edit, when_busy }, 4009);
    }
    assert.equal((await host.result("session.history", { session_id: id })).count, 1);
    assert.equal((await host.result("session.status", { session_id: id })).state.running, true);
  },
);

rpcScenario(
  "prompt.submit 4027",
  { title: "a queue that is full", script: gatedScript().script, config: { sessions: { max_queue: 2 } } },
  async (host) => {
    const id = await openSession(host);
    for (const text of ["one", "two", "three"]) await host.result("prompt.submit", { session_id: id, text });
    const error = await host.error("prompt.submit", { session_id: id, text: "four" }, 4027);
    assert.deepEqual([error.data.reason, error.data.retryable], ["queue_full", true]);
    const { state } = await host.result("session.status", { session_id: id });
    assert.equal(state.queue_length, 2);
  },
);

rpcScenario(
  ["prompt.submit 4090", "prompt.background 4090", "session.compress 4090"],
  {
    title: "the limit of running turns",
    script: gatedScript().script,
    config: { limits: { max_concurrent_runs: 1 } },
  },
  async (host) => {
    const [one, two] = [
      await openSession(host),
      await openSession(host, { messages: [{ role: "user", content: "x" }] }),
    ];
    await host.result("prompt.submit", { session_id: one, text: "hi" });
    const refused = { session_id: two, text: "hi", when_busy: "reject" };
    const error = await host.error("prompt.submit", refused, 4090);
    assert.equal(error.data.retryable, true);
    await host.error("prompt.background", { session_id: two, text: "hi" }, 4090);
    await host.error("session.compress", { session_id: two }, 4090);
  },
);

rpcScenario(
  ["prompt.submit", "event session.queue"],
  {
    title: "at the limit of running turns a prompt waits, and starts when one has ended",
    config: { limits: { max_concurrent_runs: 1 } },
  },
  async (host, { play }) => {
    const atTheLimit = gatedScript();
    play(atTheLimit.script);
    const [one, two] = [await openSession(host), await openSession(host)];
    const first = await host.result("prompt.submit", { session_id: one, text: "hi" });
    for (const when_busy of ["queue", "interrupt"]) {
      const own = await host.result("prompt.submit", { session_id: one, text: "more", when_busy });
      assert.equal(own.status, "queued");
    }
    const waiting = await host.result("prompt.submit", { session_id: two, text: "hello" });
    assert.deepEqual([waiting.status, waiting.queue_position], ["queued", 1]);
    const { payload } = await host.event("session.queue", (event) => event.session_id === two);
    assert.deepEqual(payload.queued, [{ turn_id: waiting.turn_id, text_preview: "hello" }]);
    assert.notEqual(first.turn_id, waiting.turn_id);
    atTheLimit.open();
    const started = await host.event("message.start", (event) => event.session_id === two);
    assert.deepEqual([started.turn_id, started.payload.origin], [waiting.turn_id, "queue"]);
  },
);

rpcScenario(
  ["prompt.background", "event background.complete"],
  { title: "answers with a task, and reports its end to the session", script: () => ({ text: "found" }) },
  async (host) => {
    const id = await openSession(host);
    const { task_id } = await host.result("prompt.background", { session_id: id, text: "look" });
    assert.match(task_id, /^bg_/);
    const { payload } = await host.event("background.complete");
    assert.deepEqual(payload, { task_id, text: "found", status: "complete" });
    assert.equal((await host.result("session.history", { session_id: id })).count, 0);
  },
);

rpcScenario(
  ["prompt.background 4001", "prompt.background 4012"],
  "an unknown session, or empty text",
  async (host) => {
    await host.error("prompt.background", { session_id: "nowhere", text: "look" }, 4001);
    await host.error("prompt.background", { session_id: await openSession(host), text: " " }, 4012);
  },
);
