import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Json } from "../../harness/rpc.ts";
import { gatedScript, openSession, rpcScenario, takeTurn } from "./scenario.ts";

rpcScenario(
  "session.create",
  "one id under three names, and nothing is saved before the first prompt",
  async (host) => {
    const made = await host.result("session.create", { title: "  My\nday ", source: "desk" });
    assert.match(made.session_id, /^\d{8}_\d{6}_[0-9a-f]{12}$/);
    assert.equal(made.stored_session_id, made.session_id);
    assert.equal(made.session_key, made.session_id);
    assert.deepEqual([made.message_count, made.messages, made.info.title], [0, [], "My day"]);
    assert.deepEqual(await host.result("session.list"), { sessions: [] });
    await takeTurn(host, made.session_id, "hi there");
    const { sessions } = await host.result("session.list");
    assert.deepEqual(
      sessions.map(({ id, title, preview, source, message_count }: Record<string, unknown>) => [
        id,
        title,
        preview,
        source,
        message_count,
      ]),
      [[made.session_id, "My day", "hi there", "desk", 2]],
    );
  },
);

rpcScenario(
  "session.create",
  {
    title: "given messages are saved, and the model gets them",
    script: ({ messages }) => ({ text: `knows ${messages.length}` }),
  },
  async (host) => {
    const messages = [
      { role: "user", content: "one" },
      { role: "assistant", text: "two" },
    ];
    const made = await host.result("session.create", { messages });
    assert.equal(made.message_count, 2);
    assert.deepEqual(
      made.messages.map(({ role, text }: Record<string, unknown>) => [role, text]),
      [
        ["user", "one"],
        ["assistant", "two"],
      ],
    );
    assert.equal((await host.result("session.list")).sessions.length, 1);
    assert.equal((await takeTurn(host, made.session_id, "three")).text, "knows 3");
  },
);

rpcScenario(
  "session.create",
  "a missing folder is ignored, an existing one is used",
  async (host, { service }) => {
    const { workspace } = service;
    const away = await host.result("session.create", { cwd: "/not/there" });
    assert.equal(away.info.cwd, workspace);
    const folder = join(workspace, `project-${away.session_id}`);
    await mkdir(join(folder, ".git"), { recursive: true });
    await writeFile(join(folder, ".git", "HEAD"), "ref: refs/heads/topic\n");
    const there = await host.result("session.create", { cwd: folder });
    assert.deepEqual([there.info.cwd, there.info.branch], [folder, "topic"]);
  },
);

rpcScenario("session.create", "model, effort and parent apply to this session only", async (host) => {
  const parent = await openSession(host);
  await takeTurn(host, parent, "hi");
  const asked = { model: "demo", reasoning_effort: "high", parent_session_id: parent };
  const made = await host.result("session.create", asked);
  assert.equal(made.info.reasoning_effort, "high");
  const plain = await host.result("session.create");
  const named = await host.result("session.create", { provider: "demo" });
  assert.deepEqual([named.info.provider, named.info.model], ["demo", "demo"]);
  assert.equal(plain.info.reasoning_effort, undefined);
});

rpcScenario(
  ["session.create 4001", "session.create 4002", "session.create 4022"],
  "invalid parameters of a new session",
  async (host) => {
    await host.error("session.create", { parent_session_id: "nowhere" }, 4001);
    const model = await host.error("session.create", { model: "nobody:nothing" }, 4002);
    assert.equal(model.data.param, "model");
    const provider = await host.error("session.create", { provider: "nobody" }, 4002);
    assert.equal(provider.data.param, "provider");
    const effort = await host.error("session.create", { reasoning_effort: "immense" }, 4002);
    assert.equal(effort.data.param, "reasoning_effort");
    const title = await host.error("session.create", { title: "x".repeat(200) }, 4022);
    assert.equal(title.data.reason, "title_invalid");
    assert.deepEqual(await host.result("session.active_list"), { sessions: [] });
  },
);

rpcScenario(
  ["session.create 4090", "session.resume 4090", "session.branch 4090"],
  { title: "the limit of open sessions", config: { sessions: { max_live: 1 } } },
  async (host) => {
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    const error = await host.error("session.create", {}, 4090);
    assert.deepEqual([error.data.reason, error.data.retryable], ["session_limit", true]);
    await host.error("session.branch", { session_id: id }, 4090);
    assert.equal((await host.result("session.list")).sessions.length, 1, "a branch was left behind");
    await host.result("session.close", { session_id: id });
    const other = await openSession(host);
    await host.error("session.resume", { session_id: id }, 4090);
    await host.result("session.close", { session_id: other });
    assert.equal((await host.result("session.resume", { session_id: id })).resumed, id);
  },
);

rpcScenario("session.list", "newest first, in pages, by exact title, by source", async (host) => {
  const ids: string[] = [];
  for (const [title, source] of [
    ["one", "desk"],
    ["two", "tui"],
    ["three", "tui"],
  ]) {
    const id = await openSession(host, { title, source });
    await takeTurn(host, id, `about ${title}`);
    ids.unshift(id);
  }
  const named = (page: { sessions: { id: string }[] }) => page.sessions.map(({ id }) => id);
  assert.deepEqual(named(await host.result("session.list")), ids);
  const first = await host.result("session.list", { limit: 2 });
  assert.deepEqual(named(first), ids.slice(0, 2));
  const rest = await host.result("session.list", { limit: 2, cursor: first.next_cursor });
  assert.deepEqual([named(rest), rest.next_cursor], [ids.slice(2), undefined]);
  assert.deepEqual(named(await host.result("session.list", { title: "two" })), [ids[1]]);
  assert.deepEqual(named(await host.result("session.list", { source: "desk" })), [ids[2]]);
});

rpcScenario("session.list 4002", "an unknown cursor", async (host) => {
  const error = await host.error("session.list", { cursor: "x" }, 4002);
  assert.equal(error.data.param, "cursor");
});

rpcScenario("session.most_recent", "the session used last, or none", async (host) => {
  assert.deepEqual(await host.result("session.most_recent"), { session_id: null });
  const [one, two] = [await openSession(host), await openSession(host, { title: "other" })];
  await takeTurn(host, two, "first");
  await takeTurn(host, one, "second");
  assert.equal((await host.result("session.most_recent")).session_id, one);
  await takeTurn(host, two, "third");
  const { session_id, title, source, started_at } = await host.result("session.most_recent");
  assert.deepEqual([session_id, title, source], [two, "other", "tui"]);
  assert.equal(typeof started_at, "number");
});

rpcScenario("session.resume", "a saved session is opened with its messages", async (host) => {
  const id = await openSession(host);
  await takeTurn(host, id, "hi");
  await host.result("session.close", { session_id: id });
  const view = await host.result("session.resume", { session_id: id });
  assert.deepEqual([view.resumed, view.session_id, view.running, view.status], [id, id, false, "idle"]);
  assert.deepEqual(
    view.messages.map(({ text }: { text: string }) => text),
    ["hi", "hello"],
  );
  const bare = await host.result("session.resume", { session_id: id, omit_messages: true });
  assert.deepEqual([bare.messages, bare.messages_omitted, bare.message_count], [[], true, 2]);
});

rpcScenario(
  "session.resume",
  "by its exact title, the one used last; an id wins over a title",
  async (host) => {
    const [one, two] = [
      await openSession(host, { title: "plan" }),
      await openSession(host, { title: "plan" }),
    ];
    await takeTurn(host, two, "hi");
    await takeTurn(host, one, "hi");
    assert.equal((await host.result("session.resume", { session_id: "plan" })).resumed, one);
    await takeTurn(host, two, "again");
    assert.equal((await host.result("session.resume", { session_id: "plan" })).resumed, two);
    const sly = await openSession(host, { title: one });
    await takeTurn(host, sly, "hi");
    assert.equal((await host.result("session.resume", { session_id: one })).resumed, one);
    await host.error("session.resume", { session_id: "Plan" }, 4007);
  },
);

rpcScenario(
  "session.resume",
  "by the id of an open session that was never saved: it is the same session",
  async (host) => {
    const id = await openSession(host, { title: "draft" });
    const view = await host.result("session.resume", { session_id: id });
    assert.deepEqual([view.resumed, view.message_count, view.info.title], [id, 0, "draft"]);
    assert.equal((await host.result("session.active_list")).sessions.length, 1);
  },
);

rpcScenario(
  "session.resume",
  "during a turn it shows the text so far, and the rest follows",
  async (host, { connect, play }) => {
    const said = Promise.withResolvers<void>();
    const rest = Promise.withResolvers<void>();
    play(() => ({
      text: (async function* () {
        yield "first ";
        said.resolve();
        await rest.promise;
        yield "second";
      })(),
    }));
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "go" });
    await said.promise;
    await host.event("message.delta");
    const other = await connect();
    const view = await other.result("session.resume", { session_id: id });
    assert.deepEqual([view.running, view.status], [true, "working"]);
    const { messages, ...inflight } = view.inflight;
    assert.deepEqual(inflight, { user: "go", assistant: "first ", streaming: true });
    // The prompt is reported once.
    assert.deepEqual([view.messages, messages.map(({ text }: Json) => text)], [[], ["go"]]);
    rest.resolve();
    assert.equal((await other.event("message.complete")).payload.text, "first second");
  },
);

rpcScenario(
  ["session.resume 4006", "session.resume 4007"],
  "an empty or unknown session id",
  async (host, { connect }) => {
    for (const session_id of ["", " "]) await host.error("session.resume", { session_id }, 4006);
    await host.error("session.resume", {}, -32602);
    const error = await host.error("session.resume", { session_id: "nowhere" }, 4007);
    assert.equal(error.data.reason, "stored_session_not_found");
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    const stranger = await connect({ owner: "a stranger" });
    await stranger.error("session.resume", { session_id: id }, 4007);
  },
);

rpcScenario(
  [
    "session.delete",
    "session.delete 4006",
    "session.delete 4007",
    "session.delete 4023",
    "event sessions.changed",
  ],
  { title: "deletes only a saved session that is neither open nor busy", script: gatedScript().script },
  async (host, { play }) => {
    const working = await openSession(host);
    await host.result("prompt.submit", { session_id: working, text: "hi" });
    await host.result("session.close", { session_id: working });
    const atWork = await host.error("session.delete", { session_id: working }, 4023);
    assert.equal(atWork.data.reason, "session_live");
    play(() => ({ text: "hello" }));
    const id = await openSession(host);
    await takeTurn(host, id, "hi");
    await host.error("session.delete", { session_id: id }, 4023);
    await host.result("session.close", { session_id: id });
    const from = host.frames.length;
    assert.deepEqual(await host.result("session.delete", { session_id: id }), { deleted: true });
    await host.event("sessions.changed", undefined, from);
    await host.error("session.delete", { session_id: id }, 4007);
    await host.error("session.resume", { session_id: id }, 4007);
    for (const session_id of ["", " "]) await host.error("session.delete", { session_id }, 4006);
  },
);
