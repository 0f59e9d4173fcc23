import assert from "node:assert/strict";
import { ask, calls, questions, said } from "./asking.ts";
import { rpcScenario, type RpcSetting } from "./scenario.ts";

rpcScenario(
  ["clarify.respond", "event clarify.request"],
  {
    title: "several questions are shown and answered one after another",
    script: calls("echo clarify"),
    probe: questions,
  },
  async (host, { connect }) => {
    const id = await ask(host);
    const { payload } = await host.event("clarify.request");
    assert.deepEqual([payload.question, payload.choices], ["Which one?", ["red", "blue"]]);
    const answer = { request_id: payload.request_id, answer: "blue" };
    assert.deepEqual(await host.result("clarify.respond", answer), { status: "ok", remaining: 1 });
    const { payload: next, seq } = await host.event("clarify.request", (event) => event.payload !== payload);
    assert.deepEqual([next.question, next.choices, seq], ["How many?", null, undefined]);
    assert.deepEqual(
      next.questions.map(({ qid }: { qid: string }) => qid),
      ["b"],
    );
    const answered = host.frames.findIndex(({ result }) => result?.remaining === 1);
    assert.equal(host.frames[answered + 1]?.params?.payload, next, "the next question follows the answer");
    // Another host of the session goes through all questions by itself.
    const other = await connect();
    await other.result("session.activate", { session_id: id });
    const first = { request_id: payload.request_id, answer: "red" };
    assert.deepEqual(await other.result("clarify.respond", first), { status: "ok", remaining: 1 });
    const last = { request_id: next.request_id, answer: "two" };
    assert.deepEqual(await host.result("clarify.respond", last), { status: "ok" });
    assert.equal(await said(host), 'ok: {"a":"blue","b":"two"}');
    await host.error("clarify.respond", answer, 4009);
  },
);

rpcScenario(
  ["sudo.respond", "event sudo.request"],
  {
    title: "a password reaches its tool, and no event",
    script: calls("echo sudo"),
    probe: questions,
  },
  async (host) => {
    const id = await ask(host);
    const { payload } = await host.event("sudo.request");
    assert.equal(payload.command, "apt-get update");
    const answer = { request_id: payload.request_id, password: "hunter2-canary" };
    assert.deepEqual(await host.result("sudo.respond", answer), { status: "ok" });
    assert.equal(await said(host), "ok: it is right");
    const { events } = await host.result("session.events.since", { session_id: id });
    assert.equal(JSON.stringify([events, host.frames]).includes("hunter2-canary"), false);
  },
);

rpcScenario(
  ["secret.respond", "event secret.request"],
  {
    title: "a secret is stored under its name, and reaches no event",
    script: calls("echo secret"),
    probe: questions,
  },
  async (host) => {
    await ask(host);
    const { payload } = await host.event("secret.request");
    assert.deepEqual([payload.prompt, payload.env_var], ["The key of the weather service", "WEATHER_KEY"]);
    const answer = { request_id: payload.request_id, value: "sunny-canary-1" };
    assert.deepEqual(await host.result("secret.respond", answer), { status: "ok" });
    assert.equal(await said(host), "ok: stored: kept");
    assert.equal(JSON.stringify(host.frames).includes("sunny-canary-1"), false);
  },
);

rpcScenario(
  ["sudo.respond", "secret.respond"],
  { title: "an empty answer refuses", script: calls("echo sudo", "echo secret"), probe: questions },
  async (host) => {
    await ask(host);
    const [sudo, secret] = [await host.event("sudo.request"), await host.event("secret.request")];
    await host.result("sudo.respond", { request_id: sudo.payload.request_id, password: "" });
    await host.result("secret.respond", { request_id: secret.payload.request_id, value: "" });
    assert.match(await said(host), /^ok: nothing\nok: skipped/);
  },
);

rpcScenario(
  ["sudo.respond", "error -32602"],
  {
    title: "an invalid password is refused, and the question stays open",
    script: calls("echo sudo"),
    probe: questions,
  },
  async (host) => {
    await ask(host);
    const { payload } = await host.event("sudo.request");
    const id = payload.request_id;
    const error = await host.error("sudo.respond", { request_id: id, password: "two\nlines" }, -32602);
    assert.deepEqual(
      error.data.issues.map(({ path }: { path: string }) => path),
      ["password"],
    );
    await host.result("sudo.respond", { request_id: id, password: "hunter2-canary" });
    assert.equal(await said(host), "ok: it is right");
  },
);

rpcScenario(
  [
    "clarify.respond 4009",
    "sudo.respond 4009",
    "secret.respond 4009",
    "approval.respond 4009",
    "request.answer 4009",
  ],
  {
    title: "an unknown question, one of another session, kind or owner",
    script: calls("echo clarify"),
    probe: questions,
  },
  async (host, { connect }) => {
    const id = await ask(host);
    const { payload } = await host.event("clarify.request");
    const open = payload.request_id;
    const stranger = await connect({ owner: "a stranger" });
    for (const request_id of ["ask_nothing", open]) {
      await host.error("sudo.respond", { request_id, password: "x" }, 4009);
      await host.error("secret.respond", { request_id, value: "x" }, 4009);
      await host.error("approval.respond", { request_id, session_id: id, choice: "once" }, 4009);
      const who = request_id === open ? stranger : host;
      await who.error("clarify.respond", { request_id, answer: "x" }, 4009);
      const error = await who.error("request.answer", { id: request_id, result: { answer: "x" } }, 4009);
      assert.equal(error.data.reason, "no_pending_request");
    }
    const elsewhere = { request_id: open, answer: "x", session_id: "another" };
    await host.error("clarify.respond", elsewhere, 4009);
    await host.result("clarify.respond", { ...elsewhere, session_id: id });
    await host.result("clarify.respond", { ...elsewhere, session_id: id, answer: "" });
    assert.equal(await said(host), 'ok: {"a":"x","b":""}');
  },
);

rpcScenario(
  ["approval.respond", "approval.pending", "event approval.request"],
  { title: "without an id the oldest question is answered; without any, none", script: calls("rm -rf /a") },
  async (host) => {
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    assert.match(payload.command, /rm -rf/);
    const { approvals } = await host.result("approval.pending", { session_id: id });
    assert.deepEqual(
      approvals.map(({ request_id }: { request_id: string }) => request_id),
      [payload.request_id],
    );
    const { open_requests: open } = await host.result("session.activate", { session_id: id });
    assert.deepEqual([open[0].id, open[0].method], [payload.request_id, "approval"]);
    assert.deepEqual(await host.result("approval.respond", { session_id: id, choice: "once" }), {
      resolved: 1,
    });
    assert.equal(await said(host), "ok: rm -rf /a");
    assert.deepEqual(await host.result("approval.respond", { session_id: id }), { resolved: 0 });
    assert.deepEqual(await host.result("approval.pending", { session_id: id }), { approvals: [] });
  },
);

rpcScenario(
  "event approval.request",
  {
    title: "an edit comes with its diff",
    config: { approvals: { mode: "always_ask" } },
    script: ({ step }) =>
      step === 0
        ? { calls: [{ tool: "write_file", input: { path: "a.txt", content: "one\n" } }] }
        : { text: "done" },
  },
  async (host) => {
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    assert.match(payload.inline_diff, /^\+one$/m);
    const { open_requests: open } = await host.result("session.activate", { session_id: id });
    assert.equal(open[0].params.inline_diff, payload.inline_diff);
    await host.result("approval.respond", { session_id: id, choice: "deny" });
  },
);

rpcScenario(
  "approval.respond",
  { title: "a call without a choice approves nothing", script: calls("rm -rf /a") },
  async (host) => {
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    const answer = { session_id: id, request_id: payload.request_id };
    assert.deepEqual(await host.result("approval.respond", answer), { resolved: 1 });
    assert.match(await said(host), /^denied/);
  },
);

/** Asks the same once more, as a sub-agent at work beside it would: the calls of one step ask one after the other. */
async function askAlso({ service: { service } }: RpcSetting, requestId: string): Promise<void> {
  const { store, questions: deps } = service;
  const row = await store.read
    .selectFrom("questions")
    .selectAll()
    .where("id", "=", requestId)
    .executeTakeFirstOrThrow();
  const subject = { sessionId: row.session_id, runId: row.run_id, owner: row.owner };
  const { signal } = new AbortController();
  void deps.ask("approval", subject, JSON.parse(row.question) as never, { timeoutMs: 0, signal });
}

rpcScenario(
  "approval.respond",
  { title: "all settles every open approval of the session", script: calls("rm -rf /a") },
  async (host, setting) => {
    const id = await ask(host);
    const { payload, seq } = await host.event("approval.request");
    await askAlso(setting, payload.request_id);
    await host.event("approval.request", (event) => event.seq > seq);
    const answer = { session_id: id, choice: "once", all: true };
    assert.deepEqual(await host.result("approval.respond", answer), { resolved: 2 });
    assert.equal(await said(host), "ok: rm -rf /a");
  },
);

for (const how of ["a request's answer", "request.answer"]) {
  rpcScenario(
    ["question approval", "answer approval"],
    { title: `all settles every open approval in ${how}, too`, script: calls("rm -rf /a") },
    async (host, setting) => {
      await host.result("client.capabilities", { server_requests: true });
      const id = await ask(host);
      const first = await host.frame(({ method }) => method === "approval");
      await askAlso(setting, first.id);
      const second = await host.frame(({ method, id: other }) => method === "approval" && other !== first.id);
      const result = { choice: "once", all: true };
      // The other question is already settled, so a host's answer to it is dropped.
      if (how === "request.answer") await host.result("request.answer", { id: first.id, result });
      else host.send({ jsonrpc: "2.0", id: first.id, result });
      assert.equal(await said(host), "ok: rm -rf /a");
      host.send({ jsonrpc: "2.0", id: second.id, result: { choice: "deny" } });
      assert.deepEqual(await host.result("approval.pending", { session_id: id }), { approvals: [] });
    },
  );
}

rpcScenario(
  ["approval.respond", "approval.respond 4001", "approval.pending 4001"],
  {
    title: "a choice that is not offered is narrowed; an unknown session is an error",
    script: calls("rm -rf /a"),
  },
  async (host, { service }) => {
    await host.error("approval.respond", { session_id: "nowhere", choice: "once" }, 4001);
    await host.error("approval.pending", { session_id: "nowhere" }, 4001);
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    await offerOnly(["once", "deny"], service, payload.request_id);
    const answer = { session_id: id, request_id: payload.request_id, choice: "session" };
    assert.deepEqual(await host.result("approval.respond", answer), { resolved: 1 });
    assert.equal((await host.event("request.cancel")).payload.resolution, "once");
    assert.equal(await said(host), "ok: rm -rf /a");
  },
);

rpcScenario(
  "approval.respond",
  { title: "the oldest question also narrows its answer", script: calls("rm -rf /a") },
  async (host, { service }) => {
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    await offerOnly(["deny"], service, payload.request_id);
    assert.deepEqual(await host.result("approval.respond", { session_id: id, choice: "always" }), {
      resolved: 1,
    });
    assert.match(await said(host), /^denied/);
  },
);

/** Changes what a stored question offers. */
async function offerOnly(
  choices: readonly string[],
  { service }: RpcSetting["service"],
  id: string,
): Promise<void> {
  const { store } = service;
  const row = await store.read
    .selectFrom("questions")
    .selectAll()
    .where("id", "=", id)
    .executeTakeFirstOrThrow();
  const question = JSON.parse(row.question) as { choices: string[] };
  await store.write((tx) =>
    tx.update("questions", { id }, { question: JSON.stringify({ ...question, choices }) }),
  );
}

rpcScenario(
  ["request.answer", "request.answer 4002"],
  {
    title: "answers a question of any kind like its request",
    script: calls("echo clarify", "echo sudo", "echo secret"),
    probe: questions,
  },
  async (host) => {
    await ask(host);
    const clarify = (await host.event("clarify.request")).payload.request_id;
    const sudo = (await host.event("sudo.request")).payload.request_id;
    const secret = (await host.event("secret.request")).payload.request_id;
    for (const id of [clarify, sudo, secret])
      await host.error("request.answer", { id, result: { no: 1 } }, 4002);
    await host.result("request.answer", { id: clarify, result: { answers: { a: "red", b: "2" } } });
    await host.result("request.answer", { id: sudo, result: { value: "hunter2-canary" } });
    await host.result("request.answer", { id: secret, result: { value: "rainy-canary" } });
    assert.equal(await said(host), 'ok: {"a":"red","b":"2"}\nok: it is right\nok: stored: kept');
  },
);

rpcScenario(
  ["approval.respond", "session.interrupt", "event request.cancel"],
  { title: "interrupting closes open questions; a later answer is refused", script: calls("rm -rf /a") },
  async (host) => {
    const id = await ask(host);
    const { payload } = await host.event("approval.request");
    await host.result("session.interrupt", { session_id: id });
    const cancel = await host.event("request.cancel");
    assert.equal(cancel.payload.id, payload.request_id);
    const late = { session_id: id, request_id: payload.request_id, choice: "once" };
    await host.error("approval.respond", late, 4009);
    assert.deepEqual(await host.result("approval.respond", { session_id: id, choice: "once" }), {
      resolved: 0,
    });
    assert.equal((await host.event("message.complete")).payload.status, "interrupted");
  },
);
