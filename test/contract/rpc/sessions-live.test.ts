import assert from "node:assert/strict";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { gatedScript, openSession, rpcScenario, takeTurn } from "./scenario.ts";

rpcScenario(
  "session.active_list",
  "lists only open sessions, in the order of opening",
  async (host, { play }) => {
    const waits = gatedScript();
    const [one, two] = [await openSession(host, { title: "first" }), await openSession(host)];
    const saved = await openSession(host);
    await takeTurn(host, saved, "hi");
    await host.result("session.close", { session_id: saved });
    play(waits.script);
    await host.result("prompt.submit", { session_id: two, text: "look here" });
    const { sessions } = await host.result("session.active_list", { current_session_id: two });
    assert.deepEqual(
      sessions.map(({ id, title, preview, status, current, message_count: count }: Json) => [
        id,
        title,
        preview,
        status,
        current,
        count,
      ]),
      [
        [one, "first", "", "idle", false, 0],
        [two, "", "look here", "working", true, 1],
      ],
    );
    waits.open();
  },
);

rpcScenario(
  "session.active_list",
  {
    title: "a session with an open question is waiting",
    script: ({ step }) =>
      step === 0 ? { calls: [{ tool: "probe", input: { command: "rm -rf /x" } }] } : { text: "so" },
  },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "go" });
    await host.event("approval.request");
    const { sessions } = await host.result("session.active_list");
    assert.deepEqual(
      sessions.map(({ status }: Json) => status),
      ["waiting"],
    );
  },
);

rpcScenario(
  "session.activate",
  "another host sees the session as it is, and gets later events; the first host continues",
  async (host, { connect }) => {
    const id = await openSession(host);
    await takeTurn(host, id, "one");
    const other = await connect();
    const view = await other.result("session.activate", { session_id: id, cols: 100 });
    assert.deepEqual([view.session_id, view.message_count, view.messages.length], [id, 2, 2]);
    assert.equal("resumed" in view, false);
    await takeTurn(other, id, "two");
    const completes = (of: RpcHost) => of.events(id).filter(({ type }) => type === "message.complete").length;
    await host.event("message.complete", ({ seq }) => seq > view.latest_seq);
    assert.deepEqual([completes(host), completes(other)], [2, 1]);
  },
);

rpcScenario(
  ["session.close", "session.resume", "event session.closed"],
  "a session is closed for all its viewers, and stays saved; closing an unopened one is no error",
  async (host, { connect }) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    const other = await connect();
    await other.result("session.activate", { session_id: id });
    assert.deepEqual(await host.result("session.close", { session_id: id }), { closed: true });
    assert.deepEqual((await other.event("session.closed")).payload, { reason: "closed" });
    assert.deepEqual(await host.result("session.close", { session_id: id }), { closed: false });
    assert.deepEqual(await host.result("session.active_list"), { sessions: [] });
    assert.equal((await other.result("session.resume", { session_id: id })).message_count, 2);
    const stranger = await connect({ owner: "a stranger" });
    assert.deepEqual(await stranger.result("session.close", { session_id: id }), { closed: false });
  },
);

rpcScenario(
  "session.detach",
  "a host that detached gets no more events of the session, which continues",
  async (host, { connect }) => {
    const id = await openSession(host);
    const other = await connect();
    await other.result("session.activate", { session_id: id });
    assert.deepEqual(await host.result("session.detach", { session_id: id }), { detached: true });
    assert.deepEqual(await host.result("session.detach", { session_id: id }), { detached: false });
    await takeTurn(other, id, "hi");
    await host.result("ping");
    assert.deepEqual(host.events(id), []);
  },
);

rpcScenario(
  ["session.history", "session.history 4002"],
  "pages go from the newest back; a tool call is one line",
  async (host, { play }) => {
    play(({ step, user }) =>
      step === 0 && user === "one"
        ? { calls: [{ tool: "probe", input: { command: "ls" } }] }
        : { reasoning: "hm", text: `heard ${user}` },
    );
    const id = await openSession(host);
    await takeTurn(host, id, "one");
    await takeTurn(host, id, "two");
    const whole = await host.result("session.history", { session_id: id });
    assert.deepEqual(
      whole.messages.map(({ role, text, name, context, reasoning }: Json) => [
        role,
        text ?? name,
        context ?? reasoning,
      ]),
      [
        ["user", "one", undefined],
        ["tool", "probe", "ls"],
        ["assistant", "heard one", "hm"],
        ["user", "two", undefined],
        ["assistant", "heard two", "hm"],
      ],
    );
    // The message that is nothing but a call is kept and not shown.
    assert.deepEqual([whole.count, whole.has_more], [6, false]);
    const last = await host.result("session.history", { session_id: id, limit: 2 });
    assert.deepEqual([last.messages.length, last.has_more], [2, true]);
    const before = last.messages[0].message_id;
    const rest = await host.result("session.history", { session_id: id, before });
    assert.deepEqual(rest.messages, whole.messages.slice(0, 3));
    await host.error("session.history", { session_id: id, before: "nothing" }, 4002);
  },
);

rpcScenario("session.usage", "usage of all turns, and how full the context is", async (host) => {
  const id = await openSession(host);
  const none = await host.result("session.usage", { session_id: id });
  assert.deepEqual([none.total, none.calls, none.context_used], [0, 0, undefined]);
  await takeTurn(host, id, "a few words to begin with");
  const one = await host.result("session.usage", { session_id: id });
  assert.deepEqual([one.calls, one.total], [1, one.input + one.output]);
  assert.ok(one.context_used >= one.total && one.context_used <= one.context_max);
  assert.equal(one.context_percent, Math.round((one.context_used / one.context_max) * 1_000) / 10);
  assert.deepEqual([one.compressions, one.active_subagents], [0, 0]);
  await takeTurn(host, id, "and some more");
  const two = await host.result("session.usage", { session_id: id });
  // What the last call took and gave is what the next one begins with.
  assert.equal(two.context_used, two.total - one.total);
  assert.equal(two.calls, 2);
});

rpcScenario("session.status", "as lines for users, and as data", async (host, { play }) => {
  const waits = gatedScript();
  const id = await openSession(host, { title: "plan" });
  const rest = await host.result("session.status", { session_id: id });
  assert.match(rest.output, /plan/);
  assert.deepEqual([rest.state.status, rest.state.running, rest.state.turn_id], ["idle", false, undefined]);
  play(waits.script);
  const { turn_id } = await host.result("prompt.submit", { session_id: id, text: "one" });
  await host.result("prompt.submit", { session_id: id, text: "two" });
  const { state } = await host.result("session.status", { session_id: id });
  assert.deepEqual(
    [state.status, state.running, state.turn_id, state.queue_length, state.pending_requests, state.title],
    ["working", true, turn_id, 1, 0, "plan"],
  );
  waits.open();
});

rpcScenario(
  "session.events.since",
  "returns the events after a number, as they were sent",
  async (host, { connect }) => {
    const id = await openSession(host, { title: "named" });
    await takeTurn(host, id, "hi");
    const all = await host.result("session.events.since", { session_id: id });
    assert.deepEqual([all.truncated, all.count, all.open_requests], [false, all.events.length, []]);
    assert.equal(all.latest_seq, Math.max(...all.events.map(({ seq }: Json) => seq ?? 0)));
    const complete = all.events.find(({ type }: Json) => type === "message.complete");
    const sent = await host.event("message.complete");
    assert.deepEqual(complete, sent);
    for (const asked of [{ last_seen: complete.seq - 1 }, { since_seq: complete.seq - 1 }]) {
      const some = await host.result("session.events.since", { session_id: id, ...asked });
      assert.equal(some.events[0].seq, complete.seq);
    }
    const other = await host.result("session.events.since", {
      session_id: id,
      last_seen: 1,
      epoch: "another",
    });
    assert.deepEqual([other.truncated, other.events], [true, []]);
    const late = await connect();
    const none = await late.result("session.events.since", { session_id: id, last_seen: all.latest_seq });
    assert.equal(none.epoch, all.epoch);
    // A session snapshot has no number, so a client with the last event may have missed it.
    assert.deepEqual(
      none.events.map(({ type, seq }: Json) => [type, seq]),
      [["session.info", undefined]],
    );
  },
);

rpcScenario(
  [
    "session.activate 4001",
    "session.interrupt 4001",
    "session.steer 4001",
    "session.history 4001",
    "session.compress 4001",
    "session.branch 4001",
    "session.undo 4001",
    "session.title 4001",
    "session.usage 4001",
    "session.status 4001",
    "session.events.since 4001",
    "prompt.background 4001",
  ],
  "methods for open sessions report a saved one as saved, and reveal nothing of others",
  async (host, { connect }) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    await host.result("session.close", { session_id: id });
    const stranger = await connect({ owner: "a stranger" });
    for (const method of [
      "session.activate",
      "session.interrupt",
      "session.steer",
      "session.history",
      "session.compress",
      "session.branch",
      "session.undo",
      "session.title",
      "session.usage",
      "session.status",
      "session.events.since",
      "prompt.background",
    ]) {
      const params = (session_id: string) =>
        /steer|background/.test(method) ? { session_id, text: "x" } : { session_id };
      const stored = await host.error(method, params(id), 4001);
      assert.deepEqual([stored.data.reason, stored.data.stored], ["not_live", true], method);
      const others = await stranger.error(method, params(id), 4001);
      assert.deepEqual([others.data.reason, others.data.stored], ["session_not_found", undefined], method);
    }
  },
);

rpcScenario(
  "error -32603",
  "a session with broken data fails without details, and others continue",
  async (host, { service }) => {
    const [broken, whole] = [await openSession(host), await openSession(host)];
    await takeTurn(host, broken, "hi");
    const { store } = service.service;
    await store.write((tx) => tx.update("sessions", { id: broken }, { usage: "{broken" }));
    const error = await host.error("session.usage", { session_id: broken }, -32603);
    assert.deepEqual([error.data.reason, error.data.retryable], ["internal_error", false]);
    assert.doesNotMatch(error.message, /broken|JSON|position/);
    assert.equal((await takeTurn(host, whole, "hi")).text, "hello");
    await store.write((tx) => tx.update("sessions", { id: broken }, { usage: null }));
  },
);

rpcScenario(
  "session.create",
  "close_on_disconnect closes the session with its connection; others stay",
  async (host, { connect }) => {
    const own = await connect();
    const fleeting = await openSession(own, { close_on_disconnect: true });
    const lasting = await openSession(own);
    const watched = await openSession(own, { close_on_disconnect: true });
    await host.result("session.activate", { session_id: watched });
    own.wire.close();
    await own.wire.closed;
    const open = async () =>
      (await host.result("session.active_list")).sessions.map(({ id }: Json) => id) as string[];
    while ((await open()).includes(fleeting)) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await open(), [lasting, watched]);
  },
);

rpcScenario(
  "session.resume",
  "close_on_disconnect also applies to a resumed session, and ends no turn",
  async (host, { connect, play }) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    await host.result("session.close", { session_id: id });
    const waits = gatedScript();
    play(waits.script);
    const own = await connect();
    await own.result("session.resume", { session_id: id, close_on_disconnect: true });
    await own.result("prompt.submit", { session_id: id, text: "go on" });
    own.wire.close();
    await own.wire.closed;
    const open = async () => (await host.result("session.active_list")).sessions.length;
    while ((await open()) > 0) await new Promise((resolve) => setImmediate(resolve));
    const from = host.frames.length;
    const view = await host.result("session.resume", { session_id: id });
    assert.equal(view.running, true);
    waits.open();
    const { payload } = await host.event("message.complete", undefined, from);
    assert.equal(payload.text, "heard go on");
  },
);
