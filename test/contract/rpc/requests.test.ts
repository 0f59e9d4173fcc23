import assert from "node:assert/strict";
import { ask, calls, questions, said } from "./asking.ts";
import { rpcScenario } from "./scenario.ts";

rpcScenario(
  ["question clarify", "answer clarify"],
  {
    title: "answers alone answer the question, and null skips one",
    script: calls("echo clarify"),
    probe: questions,
  },
  async (host) => {
    await host.result("client.capabilities", { server_requests: true });
    await ask(host);
    const { id, params } = await host.frame(({ method }) => method === "clarify");
    const [first, second] = params.questions;
    assert.deepEqual([first.qid, second.qid, params.question], [first.id, second.id, "Which one?"]);
    const answers = { [first.qid]: null, [second.qid]: "two" };
    host.send({ jsonrpc: "2.0", id, result: { answers } });
    assert.equal(await said(host), 'ok: {"a":"","b":"two"}');
  },
);

rpcScenario(
  ["question sudo", "event error"],
  {
    title: "an answer that does not fit leaves the question open, and the host is asked again",
    script: calls("echo sudo"),
    probe: questions,
  },
  async (host) => {
    await host.result("client.capabilities", { server_requests: true });
    await ask(host);
    const { id } = await host.frame(({ method }) => method === "sudo");
    for (const [value, issue] of [
      [5, /must be a string/],
      ["two\nlines", /line breaks/],
    ] as const) {
      const from = host.frames.length;
      host.send({ jsonrpc: "2.0", id, result: { value } });
      const { payload } = await host.event("error", () => true, from);
      assert.match(payload.message, issue);
      await host.frame(({ method }) => method === "sudo", from);
    }
    host.send({ jsonrpc: "2.0", id, result: { value: "hunter2-canary" } });
    assert.equal(await said(host), "ok: it is right");
  },
);

rpcScenario(
  ["question approval", "answer approval"],
  {
    title: "a question as a request has its facts beside payload, as in open_requests",
    script: calls("rm -rf /a"),
  },
  async (host) => {
    await host.result("client.capabilities", { server_requests: true });
    const session_id = await ask(host);
    const { id, params } = await host.frame(({ method }) => method === "approval");
    const { session_id: of, payload, ...facts } = params;
    assert.equal(of, session_id);
    assert.deepEqual(facts, payload);
    assert.match(params.command, /rm -rf/);
    assert.equal(params.request_id, id);
    const { open_requests: open } = await host.result("session.activate", { session_id });
    assert.deepEqual(open, [{ id, method: "approval", params }]);
    host.send({ jsonrpc: "2.0", id, result: { choice: "once" } });
    assert.equal(await said(host), "ok: rm -rf /a");
  },
);
