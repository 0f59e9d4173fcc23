/** Every event that no other file of scenarios provokes. */
import assert from "node:assert/strict";
import { assertTurnOrder } from "../../harness/turn-order.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

rpcScenario(
  "event gateway.ready",
  "is the first frame, with limits and capabilities",
  async (host, { service }) => {
    const [{ method, params }] = host.frames;
    assert.deepEqual(
      [method, params.type, params.seq, params.session_id],
      ["event", "gateway.ready", undefined, undefined],
    );
    const { protocol, replay_epoch: epoch, capabilities, limits } = params.payload;
    assert.deepEqual(protocol, { name: "agent-tui-gateway", version: 1, min_version: 1 });
    assert.equal(epoch, service.service.store.epoch);
    assert.equal(capabilities.event_replay, true);
    assert.ok(limits.max_inflight_requests > 0);
  },
);

rpcScenario(
  [
    "event message.delta",
    "event reasoning.delta",
    "event reasoning.available",
    "event thinking.delta",
    "event tool.progress",
    "event message.interim",
    "event tool.complete",
    "event session.usage",
  ],
  {
    title: "a turn reports text, reasoning, tools and usage, each with its number",
    script: ({ step }) =>
      step === 0
        ? {
            reasoning: "Let me see.",
            text: ["One ", "moment."],
            calls: [{ tool: "probe", input: { command: "look" } }],
          }
        : { text: "Seen." },
    probe: async (_, { progress }) => {
      progress("begun\nhalfway\n");
      return '{"found": 2}';
    },
  },
  async (host) => {
    const id = await openSession(host);
    const end = await takeTurn(host, id, "go");
    assertTurnOrder(host.frames, id, 0);
    const eventsOf = (type: string) => host.events(id).filter((event) => event.type === type);
    const textOf = (type: string) =>
      eventsOf(type)
        .map(({ payload }) => payload.text)
        .join("");
    assert.equal(textOf("message.delta"), "One moment.Seen.");
    assert.equal(textOf("reasoning.delta"), "Let me see.");
    assert.equal(textOf("reasoning.available"), "Let me see.");
    assert.equal(textOf("thinking.delta"), "");
    assert.equal(end.text, "Seen.");
    const [progress] = eventsOf("tool.progress");
    const [complete] = eventsOf("tool.complete");
    const { name, preview, output } = progress.payload;
    const [started] = eventsOf("tool.start");
    assert.deepEqual([name, output], ["probe", "begun\nhalfway\n"]);
    assert.equal(preview, `${started.payload.context} · halfway`, "the command stays in view");
    const [interim] = eventsOf("message.interim");
    assert.deepEqual(interim.payload, { text: "One moment.", already_streamed: true });
    assert.equal(interim.seq, undefined);
    assert.equal(host.events(id).indexOf(interim), host.events(id).indexOf(started) + 1);
    assert.deepEqual(complete.payload.result, { found: 2 });
    assert.equal(complete.payload.tool_id, progress.payload.tool_id);
    const [usage] = eventsOf("session.usage");
    assert.ok(usage.payload.usage.calls >= 1 && usage.payload.usage.calls <= end.usage.calls);
  },
);

rpcScenario(
  ["event tool.complete", "event tool.start"],
  {
    title: "a file change has its diff, a plan its items, a failure its reason",
    config: { approvals: { mode: "yolo" } },
    script: ({ step }) => {
      const calls = [
        { tool: "write_file", input: { path: "a.txt", content: "one\n" } },
        { tool: "todo", input: { todos: [{ id: "1", content: "write it", status: "completed" }] } },
        { tool: "read_file", input: { path: "nowhere.txt" } },
        { tool: "terminal", input: { command: "exit 3" } },
      ];
      return step === 0 ? { calls } : { text: "done" };
    },
  },
  async (host) => {
    const id = await openSession(host);
    await takeTurn(host, id, "go");
    const ended = (name: string) =>
      host.events(id).find(({ type, payload }) => type === "tool.complete" && payload.name === name).payload;
    assert.match(ended("write_file").inline_diff, /^\+one$/m);
    assert.equal(ended("todo").todos[0].content, "write it");
    assert.match(ended("read_file").error, /nowhere\.txt/);
    assert.equal(ended("read_file").code, "failed");
    assert.deepEqual([ended("write_file").error, ended("write_file").code], [undefined, undefined]);
    assert.deepEqual([ended("terminal").error, ended("terminal").code], [undefined, "command_failed"]);
  },
);

rpcScenario(
  "event tool.generating",
  {
    title: "a tool call for another client is only reported",
    script: () => ({ calls: [{ tool: "their_tool", input: { a: 1 } }] }),
  },
  async (host, { service, owner }) => {
    const id = await openSession(host, { title: "Shared" });
    const clientTools = [{ name: "their_tool", description: "Theirs.", parameters: { type: "object" } }];
    await service.service.runs.submit({
      address: { owner, id },
      seed: { source: "api" },
      kind: "run",
      input: { prompt: [{ role: "user", text: "go" }], settings: {}, answerable: false, clientTools },
    });
    const { payload } = await host.event("tool.generating");
    assert.equal(payload.name, "their_tool");
    const end = await host.event("message.complete");
    assert.equal(end.payload.status, "complete");
  },
);

rpcScenario(
  "event session.reclaimed",
  {
    title: "an idle session is closed for a new one, and all its owner's connections are notified",
    config: { sessions: { max_live: 1 } },
  },
  async (host, { connect, service, owner }) => {
    const [other, stranger] = [await connect(), await connect({ owner: `${owner}-not` })];
    const id = await openSession(host);
    await host.result("session.detach", { session_id: id });
    await host.error("session.create", {}, 4090);
    const live = service.service.agent.live.find(id, owner);
    assert.ok(live);
    live.lastActiveAtMs = 0;
    await openSession(host);
    for (const each of [host, other]) {
      const { payload, seq } = await each.event("session.reclaimed");
      assert.deepEqual(payload, { session_id: id, stored_session_id: id, reason: "idle_timeout" });
      assert.equal(seq, undefined);
    }
    await host.error("session.usage", { session_id: id }, 4001);
    await stranger.result("ping");
    assert.equal(stranger.events(id).length, 0);
  },
);

rpcScenario(
  "event error",
  "an unreadable journal is reported without details, and ends neither connection nor session",
  async (host, { service, connect }) => {
    const id = await openSession(host);
    await takeTurn(host, id, "go");
    const { store } = service.service;
    await store.write(
      async (tx) => void (await tx.update("events", { session_id: id, seq: 2 }, { data: "{secret" })),
    );
    const other = await connect();
    const cursor = { epoch: store.epoch, last_seen: 0 };
    await other.result("session.resume", { session_id: id, cursor });
    const { payload } = await other.event("error", (event) => event.session_id === id);
    assert.equal(payload.fatal, false);
    assert.doesNotMatch(payload.message, /secret|JSON/);
    assert.deepEqual(await other.result("ping"), { pong: true });
    assert.equal((await takeTurn(host, id, "again")).status, "complete");
  },
);
