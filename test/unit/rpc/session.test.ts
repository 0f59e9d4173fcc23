import assert from "node:assert/strict";
import { mkdir, mkdtemp, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestGateway, type TestHost } from "../../harness/rpc-host.ts";

async function ask(host: TestHost, id: string, text: string): Promise<void> {
  const from = host.events.length;
  await host.call("prompt.submit", { session_id: id, text });
  await host.ended(from);
}

test("live methods on an unknown session are 4001, on a saved one 4001 not_live", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await ask(host, id, "hello");
  assert.deepEqual(await host.call("session.close", { session_id: id }), { closed: true });
  assert.deepEqual(await host.call("session.close", { session_id: id }), { closed: false });
  assert.equal((await host.event("session.closed")).payload.reason, "closed");
  for (const method of ["session.activate", "session.history", "session.usage", "session.status"] as const) {
    const saved = await host.fails(method, { session_id: id });
    assert.deepEqual(
      [saved.code, saved.data],
      [4001, { reason: "not_live", retryable: false, stored: true }],
    );
    const unknown = await host.fails(method, { session_id: "nope" });
    assert.deepEqual([unknown.code, unknown.data?.reason], [4001, "session_not_found"]);
  }
});

test("a session is resumed by its id and by its exact title; others' are unknown", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const named = await host.call("session.title", { session_id: id, title: "My plan" });
  assert.deepEqual(named, { title: "My plan", session_key: id, pending: false });
  assert.equal((await host.event("session.title")).payload.title, "My plan");
  await ask(host, id, "hello");
  await host.call("session.close", { session_id: id });
  const view = await host.call("session.resume", { session_id: "My plan" });
  assert.deepEqual([view.session_id, view.resumed, view.status], [id, id, "idle"]);
  assert.deepEqual(
    view.messages.map(({ role, text }) => [role, text]),
    [
      ["user", "hello"],
      ["assistant", "done"],
    ],
  );
  assert.equal((await gateway.host("other").fails("session.resume", { session_id: id })).code, 4007);
  assert.equal((await host.fails("session.resume", { session_id: " " })).code, 4006);
  assert.equal((await host.fails("session.title", { session_id: id, title: " " })).code, 4021);
  assert.equal((await host.fails("session.title", { session_id: id, title: "x".repeat(500) })).code, 4022);
});

test("session.list shows the newest first, session.active_list the order of opening", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  assert.deepEqual(await host.call("session.most_recent"), { session_id: null });
  const { session_id: a } = await host.call("session.create", { title: "A" });
  const { session_id: b } = await host.call("session.create");
  await ask(host, a, "first");
  await ask(host, b, "second");
  const { sessions } = await host.call("session.list");
  assert.deepEqual(
    sessions.map(({ id, preview, source }) => [id, preview, source]),
    [
      [b, "second", "tui"],
      [a, "first", "tui"],
    ],
  );
  assert.equal((await host.call("session.most_recent")).session_id, b);
  const active = await host.call("session.active_list", { current_session_id: b });
  assert.deepEqual(
    active.sessions.map(({ id, current, title }) => [id, current, title]),
    [
      [a, false, "A"],
      [b, true, ""],
    ],
  );
  assert.equal((await host.fails("session.list", { cursor: "!" })).code, 4002);
});

test("a session starts with the messages it was created with", async () => {
  await using gateway = await createTestGateway({
    script: ({ messages }) => ({ text: String(messages.length) }),
  });
  const host = gateway.host();
  const messages = [
    { role: "user", content: "earlier" },
    { role: "assistant", text: "indeed" },
  ];
  const made = await host.call("session.create", { messages });
  assert.deepEqual(
    made.messages.map(({ text }) => text),
    ["earlier", "indeed"],
  );
  await ask(host, made.session_id, "now");
  assert.equal((await host.event("message.complete")).payload.text, "3");
});

test("session.delete requires a closed session", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await ask(host, id, "hello");
  assert.equal((await host.fails("session.delete", { session_id: id })).code, 4023);
  await host.call("session.close", { session_id: id });
  assert.deepEqual(await host.call("session.delete", { session_id: id }), { deleted: true });
  await host.event("sessions.changed");
  assert.equal((await host.fails("session.delete", { session_id: id })).code, 4007);
});

test("steer is rejected when idle", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const steered = await host.call("session.steer", { session_id: id, text: "x" });
  assert.deepEqual(steered, { status: "rejected", text: "x", reason: "idle" });
  assert.equal((await host.fails("session.steer", { session_id: id, text: "" })).code, 4002);
});

test("a branch is a new open session; undo takes the last prompt back", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create", { title: "Plan" });
  assert.equal((await host.fails("session.branch", { session_id: id })).code, 4008);
  assert.deepEqual(await host.call("session.undo", { session_id: id }), { removed: 0 });
  await ask(host, id, "one");
  const branch = await host.call("session.branch", { session_id: id });
  assert.deepEqual([branch.title, branch.parent, branch.message_count], ["Plan #2", id, 2]);
  assert.deepEqual(await host.call("session.undo", { session_id: branch.session_id }), { removed: 2 });
  assert.equal((await host.call("session.history", { session_id: id })).count, 2);
});

test("status and usage are reported before and after a turn", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  assert.equal((await host.call("session.usage", { session_id: id })).total, 0);
  await ask(host, id, "one");
  const { output, state } = await host.call("session.status", { session_id: id });
  assert.match(output, new RegExp(id));
  assert.deepEqual([state.status, state.running, state.queue_length], ["idle", false, 0]);
  assert.ok((await host.call("session.usage", { session_id: id })).calls > 0);
  const compressed = await host.call("session.compress", { session_id: id });
  assert.equal(compressed.status, "noop");
});

test("session.events.since returns missed events, and truncated for a foreign epoch", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await ask(host, id, "one");
  const all = await host.call("session.events.since", { session_id: id });
  assert.equal(all.events.filter(({ seq }) => seq !== undefined).length, all.latest_seq);
  const rest = await host.call("session.events.since", { session_id: id, since_seq: all.latest_seq });
  assert.deepEqual(
    rest.events.map(({ type }) => type),
    ["session.info"],
  );
  const foreign = await host.call("session.events.since", { session_id: id, last_seen: 1, epoch: "x" });
  assert.deepEqual([foreign.truncated, foreign.count], [true, 0]);
  const resumed = await host.call("session.resume", { session_id: id, cursor: { epoch: "x", last_seen: 1 } });
  assert.deepEqual([resumed.truncated, resumed.replayed], [true, 0]);
});

test("a question is replayed while it is open, and never after its answer", async () => {
  const tool = testTool(async () => "ran");
  const script = callsOnce("rm -rf ./build");
  await using gateway = await createTestGateway({ script, tools: [tool] });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "go" });
  const { payload } = await host.event("approval.request");
  const cursor = { epoch: gateway.agent.store.epoch, last_seen: 0 };
  const late = gateway.host();
  const view = await late.call("session.resume", { session_id: id, cursor });
  assert.deepEqual(
    [view.status, view.open_requests.map((open) => open.id)],
    ["waiting", [payload.request_id]],
  );
  assert.deepEqual((await late.event("approval.request")).payload, payload);
  const answer = { owner: "tester", by: "test", choice: "once" } as const;
  await gateway.agent.deps.questions.answer(payload.request_id, answer);
  await host.ended();
  await late.ended();
  const cancelled = await late.event("request.cancel");
  assert.deepEqual(cancelled.payload, {
    id: payload.request_id,
    method: "approval",
    reason: "resolved",
    resolution: "once",
  });
  const last = gateway.host();
  await last.call("session.resume", { session_id: id, cursor });
  await last.ended();
  assert.equal(
    last.events.some(({ type }) => type === "approval.request"),
    false,
  );
});

test("a host that supports requests gets the question as one, and its answer counts", async () => {
  const tool = testTool(async () => "ran");
  await using gateway = await createTestGateway({ script: callsOnce("rm -rf ./build"), tools: [tool] });
  const [host, other] = [gateway.host(), gateway.host()];
  await host.call("client.capabilities", { server_requests: true });
  const { session_id: id } = await host.call("session.create");
  await other.call("session.activate", { session_id: id });
  await host.call("prompt.submit", { session_id: id, text: "go" });
  const asked = await host.until(() => host.frames.find(({ method }) => method === "approval"));
  host.answer(String(asked.id), { choice: "once" });
  await host.ended();
  await other.ended();
  assert.equal((await other.event("request.cancel")).payload.reason, "resolved");
  assert.equal(
    host.events.some(({ type }) => type === "approval.request"),
    false,
  );
  assert.match((await host.event("tool.complete")).payload.result as string, /ran/);
});

test("a host on another machine works only in the workspace, whatever folder it names", async (context) => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "agentd-cwd-")));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const workspace = join(folder, "work");
  await mkdir(join(workspace, "inside"), { recursive: true });
  await symlink(folder, join(workspace, "link"));
  await using gateway = await createTestGateway({ settings: { workspace } });
  const cwdOf = async (host: ReturnType<typeof gateway.host>, cwd: string) =>
    (await host.call("session.create", { cwd })).info.cwd;
  const [far, near] = [gateway.host("tester", { isLocal: false }), gateway.host()];
  assert.equal(await cwdOf(far, join(workspace, "inside")), join(workspace, "inside"));
  for (const cwd of ["/", folder, join(workspace, "link"), join(workspace, "..")]) {
    assert.equal(await cwdOf(far, cwd), workspace, cwd);
  }
  assert.equal(await cwdOf(near, folder), folder);
});

test("a run that ends during session.activate is reported once: as running, then by its events", async () => {
  const gate = Promise.withResolvers<void>();
  const tool = testTool(async () => {
    await gate.promise;
    return "ran";
  });
  await using gateway = await createTestGateway({
    script: callsOnce("wait"),
    tools: [tool],
    settings: { policyMode: "yolo" },
  });
  const [host, other] = [gateway.host(), gateway.host()];
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "go" });
  await host.event("tool.start");
  const { store } = gateway.agent;
  const { find } = store;
  // The first read finds the session, the second one its last event, the third one what the view shows.
  let reads = 0;
  const endsBeforeThirdRead: typeof find = async (table, where) => {
    if (++reads === 3) {
      gate.resolve();
      await host.ended();
    }
    return find(table, where);
  };
  Object.assign(store, { find: endsBeforeThirdRead });
  const view = await other.call("session.activate", { session_id: id });
  assert.equal(view.inflight?.user, "go");
  assert.deepEqual(view.messages, []);
  await other.ended();
  assert.equal(other.events.filter(({ type }) => type === "message.complete").length, 1);
});

test("a run that starts during session.activate is reported by its events alone", async () => {
  await using gateway = await createTestGateway();
  const [host, other] = [gateway.host(), gateway.host()];
  const { session_id: id } = await host.call("session.create");
  await ask(host, id, "one");
  const { store } = gateway.agent;
  const { find } = store;
  // The first read finds the session, the second one its last event, the third one what the view shows.
  let reads = 0;
  const runBeforeThirdRead: typeof find = async (table, where) => {
    if (++reads === 3) await ask(host, id, "two");
    return find(table, where);
  };
  Object.assign(store, { find: runBeforeThirdRead });
  const view = await other.call("session.activate", { session_id: id });
  assert.deepEqual(
    view.messages.map(({ text }) => text),
    ["one", "done"],
  );
  await other.ended();
  assert.deepEqual((await other.event("message.start")).payload.input, { role: "user", text: "two" });
});
