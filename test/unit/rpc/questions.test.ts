import assert from "node:assert/strict";
import { test } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestGateway, type TestHost } from "../../harness/rpc-host.ts";

/** A gateway whose every turn asks for approval. */
function asking() {
  const tools = [testTool(async () => "ran")];
  return createTestGateway({ script: callsOnce("rm -rf ./build"), tools });
}

async function prompted(host: TestHost): Promise<string> {
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "go" });
  return id;
}

const askedOf = (host: TestHost) => host.until(() => host.frames.find(({ method }) => method === "approval"));

test("a key without the scope approvals gets no questions as requests", async () => {
  await using gateway = await asking();
  const host = gateway.host("tester", { scopes: ["chat", "read"] });
  const agreed = await host.call("client.capabilities", { server_requests: true });
  assert.deepEqual(agreed.server_requests, []);
  const id = await prompted(host);
  const { payload } = await host.event("approval.request");
  host.answer(payload.request_id, { choice: "once" });
  const refused = await host.fails("approval.respond", { session_id: id, choice: "once" });
  assert.equal(refused.data?.reason, "insufficient_scope");
  const { approvals } = await host.call("approval.pending", { session_id: id });
  assert.equal(approvals.length, 1);
  const other = gateway.host();
  assert.deepEqual(await other.call("approval.respond", { session_id: id, choice: "once" }), { resolved: 1 });
  await host.ended();
});

test("a question follows the pending answer and the tool call that asks it", async () => {
  await using gateway = await asking();
  const first = gateway.host();
  const id = await prompted(first);
  await first.event("approval.request");
  const host = gateway.host();
  await host.call("client.capabilities", { server_requests: true });
  const cursor = { epoch: gateway.agent.store.epoch, last_seen: 0 };
  const { open_requests: open } = await host.call("session.resume", { session_id: id, cursor });
  const asked = await askedOf(host);
  assert.equal(asked.id, open[0]?.id);
  const at = host.frames.indexOf(asked);
  const answered = host.frames.findIndex(
    ({ result }) => (result as { latest_seq?: number } | undefined)?.latest_seq !== undefined,
  );
  const started = host.frames.findIndex(
    ({ params }) => (params as { type?: string } | undefined)?.type === "tool.start",
  );
  assert.ok(answered >= 0 && answered < started && started < at, `${answered} ${started} ${at}`);
  host.answer(String(asked.id), { choice: "once" });
  await first.ended();
});

test("a host that resumes after its question can still answer it", async () => {
  await using gateway = await asking();
  const host = gateway.host();
  await host.call("client.capabilities", { server_requests: true });
  const id = await prompted(host);
  const asked = await askedOf(host);
  const { latest_seq: seen } = await host.call("session.activate", { session_id: id });
  const cursor = { epoch: gateway.agent.store.epoch, last_seen: seen };
  await host.call("session.activate", { session_id: id, cursor });
  host.answer(String(asked.id), { choice: "once" });
  await host.ended();
  assert.match((await host.event("tool.complete")).payload.result as string, /ran/);
});

test("a question that is asked during a replay does not count as closed", async () => {
  await using gateway = await asking();
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create", {
    messages: [{ role: "user", content: "hello" }],
  });
  const { questions } = gateway.agent.deps;
  const open = questions.open.bind(questions);
  let isFirst = true;
  questions.open = async (where) => {
    const rows = await open(where);
    if (!isFirst) return rows;
    isFirst = false;
    await host.call("prompt.submit", { session_id: id, text: "go" });
    await host.event("approval.request");
    return rows;
  };
  const page = await host.call("session.events.since", { session_id: id, last_seen: 0 });
  assert.deepEqual(page.open_requests, []);
  assert.ok(page.events.some(({ type }) => type === "approval.request"));
  await host.call("approval.respond", { session_id: id, choice: "once" });
  await host.ended();
});

test("clients that may not answer do not keep a declined question open", async () => {
  await using gateway = await asking();
  const [host, watcher] = [gateway.host(), gateway.host("tester", { scopes: ["chat", "read"] })];
  await host.call("client.capabilities", { server_requests: true });
  const { session_id: id } = await host.call("session.create");
  await watcher.call("session.activate", { session_id: id });
  await host.call("prompt.submit", { session_id: id, text: "go" });
  const asked = await askedOf(host);
  host.refuse(String(asked.id));
  await host.ended();
  assert.equal((await watcher.event("request.cancel")).payload.reason, "timeout");
});
