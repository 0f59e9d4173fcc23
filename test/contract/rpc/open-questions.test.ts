import assert from "node:assert/strict";
import { ask, calls, questions, said } from "./asking.ts";
import { rpcScenario } from "./scenario.ts";

for (const method of ["session.resume", "session.activate"]) {
  rpcScenario(
    "event approval.request",
    {
      title: `${method} shows an open question again, after its answer and without a number`,
      script: calls("rm -rf /a"),
    },
    async (host, { connect }) => {
      const id = await ask(host);
      const { payload } = await host.event("approval.request");
      const other = await connect();
      await other.result("session.resume", { session_id: id });
      await other.event("approval.request");
      const from = other.frames.length;
      const { open_requests: open } = await other.result(method, { session_id: id });
      const shown = await other.event("approval.request", () => true, from);
      assert.deepEqual([shown.payload, shown.seq], [payload, undefined]);
      const answered = other.frames.findLastIndex(({ result }) => result?.open_requests !== undefined);
      const event = other.frames.findLastIndex(({ params }) => params === shown);
      assert.ok(answered < event, "the event follows the answer");
      await other.result("approval.respond", { session_id: id, request_id: open[0].id, choice: "once" });
      assert.equal(await said(host), "ok: rm -rf /a");
      await other.event("message.complete");
      await other.result(method, { session_id: id });
      await other.result("ping");
      const again = other.frames.filter(({ params }) => params?.type === "approval.request");
      assert.equal(again.length, 2, "an answered question is not shown again");
    },
  );
}

rpcScenario(
  ["session.resume", "question approval", "answer approval"],
  {
    title: "a host that takes questions as requests gets an open one when it resumes, and once",
    script: calls("rm -rf /a"),
  },
  async (host, { connect, service }) => {
    const id = await ask(host);
    const { seq } = await host.event("approval.request");
    const other = await connect();
    await other.result("client.capabilities", { server_requests: true });
    const cursor = { epoch: service.service.store.epoch, last_seen: seq };
    await other.result("session.resume", { session_id: id, cursor });
    const asked = await other.frame((frame) => frame.method === "approval");
    await other.result("session.activate", { session_id: id });
    await other.result("ping");
    assert.equal(other.frames.filter((frame) => frame.method === "approval").length, 1);
    other.send({ jsonrpc: "2.0", id: asked.id, result: { choice: "once" } });
    assert.equal(await said(host), "ok: rm -rf /a");
  },
);

rpcScenario(
  ["session.activate", "event clarify.request"],
  {
    title: "a question that is shown again lacks the parts that this connection has answered",
    script: calls("echo clarify"),
    probe: questions,
  },
  async (host, { connect }) => {
    const id = await ask(host);
    const { payload } = await host.event("clarify.request");
    const request_id = payload.request_id;
    await host.result("clarify.respond", { request_id, answer: "blue" });
    await host.event("clarify.request", (event) => event.payload.question === "How many?");
    const from = host.frames.length;
    await host.result("session.activate", { session_id: id });
    const shown = await host.event("clarify.request", () => true, from);
    assert.equal(shown.payload.question, "How many?");
    const other = await connect();
    await other.result("session.activate", { session_id: id });
    assert.equal((await other.event("clarify.request")).payload.question, "Which one?");
    await host.result("clarify.respond", { request_id, answer: "two" });
    assert.equal(await said(host), 'ok: {"a":"blue","b":"two"}');
  },
);

for (const kind of ["sudo", "secret"]) {
  rpcScenario(
    ["event sudo.expire", "event secret.expire", "sudo.respond", "secret.respond"].filter((each) =>
      each.includes(kind),
    ),
    {
      title: `a ${kind} question that expires reports it, and a late answer learns it`,
      script: calls(`echo ${kind}`),
      probe: questions,
    },
    async (host) => {
      await host.result("client.capabilities", { server_requests: true });
      await ask(host);
      const { id } = await host.frame(({ method }) => method === kind);
      host.send({ jsonrpc: "2.0", id, error: { code: -32601, message: "not shown here" } });
      const expired = await host.event(`${kind}.expire`);
      assert.deepEqual([expired.payload, expired.seq], [{ request_id: id }, undefined]);
      const cancel = await host.event("request.cancel");
      assert.deepEqual([cancel.payload.id, cancel.payload.reason], [id, "timeout"]);
      const late = { request_id: id, [kind === "sudo" ? "password" : "value"]: "hunter2-canary" };
      assert.deepEqual(await host.result(`${kind}.respond`, late), { status: "expired" });
      assert.doesNotMatch(await said(host), /right|stored/);
    },
  );
}
