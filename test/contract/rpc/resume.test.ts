/** Whoever loses the connection, or the server, goes on by cursor and hears the identical stream. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { assertSameStream, assertTurnOrder } from "../../harness/turn-order.ts";

/** A bit of everything that a turn tells: reasoning, text, tools side by side, a question, a sub-agent. */
const script: Script = ({ step, user }) => {
  if (user.startsWith("child")) return { text: "the child's word" };
  if (step === 0) {
    const calls = ["progress", "clarify"].map((command) => ({ tool: "probe", input: { command } }));
    return { reasoning: "hm", text: ["a ", "b "], delayMs: 3, calls };
  }
  if (step === 1) return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "child" }] } }] };
  return { text: ["c ", "d ", "e"], delayMs: 30 };
};

const probe = testTool(async ({ command }, { progress, questions }) => {
  if (command !== "clarify") {
    progress("one\n");
    return "moved";
  }
  const question = { id: "q1", question: "Which?", choices: null, multi_select: false };
  return JSON.stringify(await questions.clarify([question]));
}, "probe");

const isOf = (id: string) => (frame: Json) => frame.method === "event" && frame.params.session_id === id;

/** Waits until a host has heard the end of the turn, and gives its events of the session. */
async function heardTurn(host: RpcHost, id: string): Promise<readonly Json[]> {
  await host.event("message.complete", (event) => event.session_id === id);
  const at = host.frames.findIndex(({ params }) => params?.type === "message.complete");
  await host.event("session.info", (event) => event.session_id === id, at);
  return host.events(id);
}

/** Answers each question that a host hears of; for as long as it is connected. */
async function answerAll(host: RpcHost, id: string): Promise<void> {
  const { payload } = await host.event("clarify.request", (event) => event.session_id === id);
  await host.result("clarify.respond", { request_id: payload.request_id, answer: "this" });
}

/** One turn over a host that is cut at an event, and what a host that was there all the time heard. */
async function cutAt(service: TestService, index: number): Promise<number> {
  await using proxy = await startCuttingProxy(service.url, []);
  await using steady = await connectSocket(service);
  const { session_id: id } = await steady.result("session.create");
  const cut = await connectSocket(proxy);
  const { epoch } = await cut.result("session.activate", { session_id: id });
  const answered = answerAll(steady, id);
  await steady.result("prompt.submit", { session_id: id, text: "go" });
  let at = 0;
  const heard: Json[] = [];
  for (let count = 0; count < index; count++) {
    const { params } = await cut.frame(isOf(id), at);
    at = cut.frames.findIndex((frame) => frame.params === params) + 1;
    heard.push(params);
    if (params.type === "session.info") break;
  }
  proxy.cut();
  await cut.wire.closed;
  await using again = await connectSocket(service);
  const lastSeen = heard.findLast(({ seq }) => seq !== undefined)?.seq ?? 0;
  const cursor = { epoch, last_seen: lastSeen };
  const view = await again.result("session.resume", { session_id: id, cursor });
  assert.equal(view.truncated, false);
  // What has no number goes with an event that has one, and is sent again with it.
  while (heard.at(-1)?.seq === undefined && heard.length > 0) heard.pop();
  const rest = await afterCut(again, id, heard);
  await answered;
  const whole = await heardTurn(steady, id);
  assertSameStream([...heard, ...rest], whole, `cut behind event ${index}`);
  assertTurnOrder(
    [...heard, ...rest].map((params) => ({ method: "event", params })),
    id,
    0,
  );
  return whole.length;
}

async function afterCut(host: RpcHost, id: string, heard: readonly Json[]): Promise<readonly Json[]> {
  if (!heard.some(({ type }) => type === "message.complete")) return heardTurn(host, id);
  await host.event("session.info", (event) => event.session_id === id);
  return host.events(id);
}

test("a socket that is cut at any event resumes by cursor to the identical stream", async () => {
  await using service = await startTestService({ script, tools: [probe] });
  let most = 1;
  for (let first = 0; first <= most; first += 6) {
    const lengths = await Promise.all([0, 1, 2, 3, 4, 5].map((more) => cutAt(service, first + more)));
    most = Math.max(...lengths);
  }
  assert.ok(most > 20, `${most} events were heard`);
});

test("a server that is restarted at any event gives one end of the turn and no gap", async () => {
  const long: Script = ({ user }) =>
    user === "go" ? { reasoning: "hm", text: ["a ", "b ", "c ", "d ", "e"], delayMs: 30 } : { text: "alive" };
  let service = await startTestService({ script: long });
  try {
    for (let index = 1; index <= 9; index++) service = await restartAt(service, index, long);
  } finally {
    await service[Symbol.asyncDispose]();
  }
});

async function restartAt(service: TestService, index: number, next: Script): Promise<TestService> {
  const before = await connectSocket(service);
  const { session_id: id } = await before.result("session.create");
  await before.result("prompt.submit", { session_id: id, text: "go" });
  const { params: ready } = await before.frame(({ params }) => params?.type === "gateway.ready");
  const heard: Json[] = [];
  for (let at = 0; heard.length < index;) {
    const { params } = await before.frame(isOf(id), at);
    at = before.frames.findIndex((frame) => frame.params === params) + 1;
    heard.push(params);
    if (params.type === "session.info") break;
  }
  const [after] = await Promise.all([service.restart({ script: next }), before.wire.closed]);
  await using host = await connectSocket(after);
  const { payload } = await host.event("gateway.ready");
  assert.equal(payload.replay_epoch, ready.payload.replay_epoch);
  const last = heard.findLast(({ seq }) => seq !== undefined);
  const cursor = { epoch: payload.replay_epoch, last_seen: last?.seq ?? 0 };
  const view = await host.result("session.resume", { session_id: id, cursor });
  assert.deepEqual([view.truncated, view.session_id], [false, id]);
  if (heard.at(-1)?.type === "session.info") heard.pop();
  const all = [...heard, ...(await afterCut(host, id, heard))];
  assertTurnOrder(
    all.map((params) => ({ method: "event", params })),
    id,
    0,
  );
  const ends = all.filter(({ type }) => type === "message.complete");
  assert.equal(ends.length, 1, `restarted behind event ${index}`);
  assert.match(ends[0].payload.status, /^(complete|interrupted)$/);
  const from = host.frames.length;
  await host.result("prompt.submit", { session_id: id, text: "still there?" });
  const end = await host.event("message.complete", undefined, from);
  assert.deepEqual([end.payload.status, end.payload.text], ["complete", "alive"]);
  return after;
}

test("a pending approval survives a restart: it is replayed as open, answered, and the turn continues", async () => {
  const tools = [testTool(async () => "removed")];
  const asking = callsOnce("rm -rf /x");
  let service = await startTestService({ script: asking, tools });
  try {
    const before = await connectSocket(service);
    const { session_id: id } = await before.result("session.create");
    await before.result("prompt.submit", { session_id: id, text: "go" });
    const asked = await before.event("approval.request");
    const { payload: ready } = await before.event("gateway.ready");
    service = await service.restart({ script: asking, tools });
    await using host = await connectSocket(service);
    const cursor = { epoch: ready.replay_epoch, last_seen: 0 };
    const view = await host.result("session.resume", { session_id: id, cursor });
    const { request_id: requestId } = asked.payload;
    assert.deepEqual(
      view.open_requests.map((open: Json) => open.id),
      [requestId],
    );
    assert.deepEqual((await host.event("approval.request")).payload.request_id, requestId);
    const answer = { session_id: id, request_id: requestId, choice: "once" };
    assert.deepEqual(await host.result("approval.respond", answer), { resolved: 1 });
    const all = await heardTurn(host, id);
    assertTurnOrder(host.frames, id, 0);
    const types = all.map(({ type }) => type);
    assert.equal(types.filter((type) => type === "message.start").length, 1);
    assert.equal(types.filter((type) => type === "approval.request").length, 1);
    const end = all.find(({ type }) => type === "message.complete");
    assert.deepEqual([end.payload.status, end.payload.text], ["complete", "ok: removed"]);
  } finally {
    await service[Symbol.asyncDispose]();
  }
});

test("a cursor of another journal, or beyond the last event, is truncated without a replay", async () => {
  await using service = await startTestService({});
  await using host = await connectSocket(service);
  const { session_id: id } = await host.result("session.create");
  await host.result("prompt.submit", { session_id: id, text: "go" });
  // The last event of the session, which may be behind the end of its turn.
  await Promise.all([heardTurn(host, id), host.event("session.title")]);
  for (const cursor of [
    { epoch: "another", last_seen: 0 },
    { epoch: service.service.store.epoch, last_seen: 10_000 },
  ]) {
    await using other = await connectSocket(service);
    const view = await other.result("session.resume", { session_id: id, cursor });
    assert.deepEqual([view.truncated, view.replayed], [true, 0]);
    await other.result("ping");
    // A session snapshot may be sent, but no numbered event.
    assert.deepEqual(
      other.events(id).filter(({ seq }) => seq !== undefined),
      [],
    );
  }
});
