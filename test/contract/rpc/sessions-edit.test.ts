import assert from "node:assert/strict";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { gatedScript, openSession, rpcScenario, takeTurn } from "./scenario.ts";

const texts = async (host: RpcHost, id: string): Promise<string[]> =>
  (await host.result("session.history", { session_id: id })).messages.map(({ text }: Json) => text);

/** Says what it heard; asked to sum up, it does so in a line. */
const heard = ({ user }: { readonly user: string }) => ({
  text: user.length > 200 ? "They counted." : `heard ${user}`,
});

rpcScenario(
  "session.compress",
  {
    title: "old messages are summarized in place: the session keeps its id, and users still see all messages",
    script: heard,
  },
  async (host) => {
    const id = await openSession(host, { title: "long" });
    for (let n = 1; n <= 8; n++) await takeTurn(host, id, `prompt ${n} ${"word ".repeat(30)}`);
    const before = await texts(host, id);
    const from = host.frames.length;
    const done = await host.result("session.compress", { session_id: id, focus_topic: "numbers" });
    assert.equal(done.status, "compressed");
    assert.ok(done.removed > 0 && done.after_messages < done.before_messages);
    assert.ok(done.after_tokens < done.before_tokens);
    assert.deepEqual([done.summary.noop, done.summary.aborted], [false, false]);
    assert.deepEqual([done.info.title, done.usage.compressions], ["long", 1]);
    assert.deepEqual(await texts(host, id), before);
    await host.event("session.info", (event) => event.session_id === id, from);
    const usage = await host.result("session.usage", { session_id: id });
    assert.ok(usage.context_used > 0);
    // What was summed up can be taken back no more.
    const edit = { session_id: id, text: "x", truncate_before_user_ordinal: 0, confirm_truncate: true };
    await host.error("prompt.submit", edit, 4018);
    assert.match((await takeTurn(host, id, "after")).text, /^heard after/);
  },
);

rpcScenario("session.compress", "nothing to compress is not an error", async (host) => {
  const id = await openSession(host);
  const empty = await host.result("session.compress", { session_id: id });
  assert.deepEqual([empty.status, empty.removed, empty.summary.noop], ["noop", 0, true]);
  await takeTurn(host, id, "hi");
  const short = await host.result("session.compress", { session_id: id });
  assert.deepEqual([short.status, short.removed, short.messages.length], ["noop", 0, 2]);
});

rpcScenario(
  ["session.compress 4009", "session.undo 4009"],
  { title: "refused while a turn is running", script: gatedScript().script },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "hi" });
    for (const method of ["session.compress", "session.undo"]) {
      const error = await host.error(method, { session_id: id }, 4009);
      assert.match(error.message, /session busy/);
    }
  },
);

rpcScenario(
  ["session.compress", "session.steer 4010"],
  "a failed summary leaves the conversation unchanged; a compression cannot be steered",
  async (host, { play }) => {
    play(heard);
    const id = await openSession(host);
    for (let n = 1; n <= 8; n++) await takeTurn(host, id, `prompt ${n} ${"word ".repeat(30)}`);
    const before = await texts(host, id);
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    play(async () => {
      asked.resolve();
      await answer.promise;
      return { error: { code: "provider_error", message: "The provider is away." } };
    });
    const compressing = host.call("session.compress", { session_id: id });
    await asked.promise;
    await host.error("session.steer", { session_id: id, text: "also" }, 4010);
    answer.resolve();
    const { result } = await compressing;
    assert.deepEqual([result.status, result.removed], ["aborted", 0]);
    assert.deepEqual([result.summary.aborted, result.summary.fallback_used], [true, false]);
    assert.deepEqual(await texts(host, id), before);
  },
);

rpcScenario(
  "session.compress 5005",
  {
    title: "a compression is refused when the daily token budget is spent",
    config: { agent: { day_token_budget: 1 } },
  },
  async (host) => {
    const id = await openSession(host);
    await takeTurn(host, id, "spend it all");
    const error = await host.error("session.compress", { session_id: id }, 5005);
    assert.equal(error.data.reason, "compress_failed");
  },
);

rpcScenario(
  "session.branch",
  "creates a branch, open and attached; its parent stays unchanged",
  async (host) => {
    const id = await openSession(host, { title: "line" });
    await takeTurn(host, id, "one");
    await takeTurn(host, id, "two");
    const branch = await host.result("session.branch", { session_id: id });
    assert.notEqual(branch.session_id, id);
    assert.deepEqual(
      [branch.stored_session_id, branch.title, branch.parent, branch.message_count, branch.info.title],
      [branch.session_id, "line #2", id, 4, "line #2"],
    );
    assert.deepEqual(await texts(host, branch.session_id), await texts(host, id));
    await takeTurn(host, branch.session_id, "three");
    assert.equal((await texts(host, id)).length, 4);
    const first = branch.messages[1].message_id;
    const cut = await host.result("session.branch", { session_id: id, message_id: first, name: "cut" });
    assert.deepEqual([cut.title, cut.message_count], ["cut", 2]);
    const short = await host.result("session.branch", { session_id: id, count: 1 });
    assert.equal(short.message_count, 1);
    const { sessions } = await host.result("session.active_list");
    assert.equal(sessions.length, 4);
  },
);

rpcScenario(
  ["session.branch 4002", "session.branch 4008", "session.branch 4022"],
  "no messages, an unknown message, or an invalid title",
  async (host) => {
    const id = await openSession(host);
    await host.error("session.branch", { session_id: id }, 4008);
    await host.result("session.title", { session_id: id, title: "saved" });
    await host.error("session.branch", { session_id: id }, 4008);
    await takeTurn(host, id, "hi");
    await host.error("session.branch", { session_id: id, message_id: "nothing" }, 4002);
    await host.error("session.branch", { session_id: id, name: "x".repeat(200) }, 4022);
    assert.equal((await host.result("session.list")).sessions.length, 1);
  },
);

rpcScenario("session.undo", "removes the last prompt and its answer, until none is left", async (host) => {
  const id = await openSession(host);
  assert.deepEqual(await host.result("session.undo", { session_id: id }), { removed: 0 });
  await takeTurn(host, id, "one");
  await takeTurn(host, id, "two");
  assert.deepEqual(await host.result("session.undo", { session_id: id }), { removed: 2 });
  assert.deepEqual(await texts(host, id), ["one", "hello"]);
  const { count } = await host.result("session.history", { session_id: id });
  const view = await host.result("session.activate", { session_id: id });
  assert.deepEqual([count, view.message_count], [2, 2]);
  assert.deepEqual(await host.result("session.undo", { session_id: id }), { removed: 2 });
  assert.deepEqual(await host.result("session.undo", { session_id: id }), { removed: 0 });
});

rpcScenario(
  ["session.title", "event session.title"],
  "the title is read and set; a session that was never prompted is saved with it",
  async (host, { connect }) => {
    const id = await openSession(host);
    assert.deepEqual(await host.result("session.title", { session_id: id }), {
      title: "",
      session_key: id,
      pending: false,
    });
    const other = await connect();
    await other.result("session.activate", { session_id: id });
    const set = await host.result("session.title", { session_id: id, title: " My\tplan " });
    assert.deepEqual(set, { title: "My plan", session_key: id, pending: false });
    assert.deepEqual((await other.event("session.title")).payload, { session_id: id, title: "My plan" });
    assert.equal((await host.result("session.title", { session_id: id })).title, "My plan");
    assert.equal((await host.result("session.list", { title: "My plan" })).sessions[0].id, id);
  },
);

rpcScenario(
  ["session.title 4021", "session.title 4022"],
  "an empty, too long or already used title",
  async (host) => {
    const id = await openSession(host, { title: "line" });
    await host.error("session.title", { session_id: id, title: " " }, 4021);
    await host.error("session.title", { session_id: id, title: "x".repeat(200) }, 4022);
    await takeTurn(host, id, "hi");
    const branch = await host.result("session.branch", { session_id: id });
    const taken = await host.error("session.title", { session_id: branch.session_id, title: "line" }, 4022);
    assert.equal(taken.data.reason, "title_invalid");
  },
);
