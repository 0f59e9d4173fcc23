import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createLog } from "../../../src/base/observe.ts";
import type { RpcHandlers, RpcContext, RpcDeps } from "../../../src/rpc/deps.ts";
import { rpcHandlers } from "../../../src/rpc/methods/handlers.ts";
import { RpcHub } from "../../../src/rpc/events/hub.ts";
import { RPC_LIMITS } from "../../../src/rpc/connection/ready.ts";
import type { Json } from "../../harness/rpc.ts";

/** A connection whose frames are in memory. The methods of `handlers` are the test's own. */
function connection(handlers: Partial<RpcHandlers<RpcContext>> = {}, scopes: readonly string[] = ["admin"]) {
  const sent: Json[] = [];
  const logLines: string[] = [];
  const clock = new FakeClock();
  const parts = {
    clock,
    log: createLog("debug", (line) => void logLines.push(line)),
    version: "0",
    store: { epoch: "e" },
    settings: { limits: RPC_LIMITS, cliExec: "local" },
    subscribe: () => ({
      sessions: new Set(),
      attach: async () => ({ latestSeq: 0, replayed: 0, truncated: false }),
      detach: () => false,
      close: () => {},
    }),
  } as unknown as RpcDeps;
  const hub = new RpcHub(parts, { ...rpcHandlers, ...handlers });
  const closed: [number, string][] = [];
  const peer = hub.connect({
    wire: {
      send: (text) => void sent.push(JSON.parse(text)),
      buffered: () => 0,
      close: (code, reason) => void closed.push([code, reason]),
    },
    identity: { owner: "ann", scopes },
    transport: "ws",
    isLocal: true,
  });
  const call = (id: Json, method: string, params?: Json) =>
    peer.receive(JSON.stringify({ id, method, params }));
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return { hub, peer, clock, sent, closed, call, turn, logLines };
}

const info = (sessionId: string) =>
  ({ type: "sessions.changed", session_id: sessionId, ts: 0, payload: {} }) as const;
const closing = (id: string) =>
  ({ type: "session.closed", session_id: id, ts: 0, payload: { reason: "test" } }) as const;

test("above 256 requests in flight, each further one gets overloaded", async () => {
  const gate = Promise.withResolvers<{ pong: true }>();
  const { sent, call, turn } = connection({ ping: () => gate.promise });
  for (let id = 0; id < 258; id++) call(id, "ping");
  await turn();
  assert.deepEqual(
    sent.slice(1).map(({ id }) => id),
    [256, 257],
  );
  assert.equal(sent[1].error.code, -32001);
  assert.deepEqual(sent[1].error.data, { reason: "overloaded", retryable: true });
  gate.resolve({ pong: true });
  await turn();
  assert.equal(sent.length, 259);
  call("later", "ping");
  await turn();
  assert.deepEqual(sent.at(-1).result, { pong: true });
});

test("a slow call does not delay a fast one", async () => {
  const gate = Promise.withResolvers<{ pong: true }>();
  const { sent, call, turn } = connection({ ping: () => gate.promise });
  call("slow", "ping");
  call("quick", "gateway.ping");
  gate.resolve({ pong: true });
  await turn();
  assert.deepEqual(
    sent.slice(1).map(({ id }) => id),
    ["quick", "slow"],
  );
});

test("events of a held session follow the answer, those of other sessions do not wait", async () => {
  const { peer, sent, call, turn } = connection({
    ping: async ({ hold }) => {
      hold("mine");
      peer.event(closing("mine"));
      peer.event(closing("other"));
      await turn();
      return { pong: true };
    },
  });
  call(1, "ping");
  await turn();
  await turn();
  const order = sent.slice(1).map((frame) => frame.params?.session_id ?? frame.id);
  assert.deepEqual(order, ["other", 1, "mine"]);
});

test("an internal error gives the client no details; the log has them", async () => {
  const { sent, call, turn, logLines } = connection({
    ping: async () => {
      throw new Error("at postgres:5432");
    },
  });
  call(1, "ping");
  await turn();
  assert.equal(sent[1].error.code, -32603);
  assert.doesNotMatch(JSON.stringify(sent[1]), /postgres/);
  assert.ok(logLines.some((line) => line.includes("at postgres:5432")));
});

test("the error names a missing scope", () => {
  const { sent, call } = connection({}, ["read"]);
  call(1, "session.create");
  assert.equal(sent[1].error.code, -32003);
  assert.match(sent[1].error.message, /scope "chat"/);
});

test("unknown parameters are logged by name, not by value", () => {
  const { sent, call, logLines } = connection();
  call(1, "ping", { strange: "hunter22" });
  assert.deepEqual(sent[1].result, { pong: true });
  const line = logLines.find((each) => each.includes("were ignored"));
  assert.match(line ?? "", /"strange"/);
  assert.doesNotMatch(logLines.join(), /hunter22/);
});

test("sessions.changed is sent at once, and once for changes that follow closely", () => {
  const { peer, sent, clock } = connection();
  const before = sent.length;
  for (let n = 0; n < 50; n++) peer.event(info("s"));
  assert.equal(sent.length, before + 1);
  clock.tick(100);
  assert.equal(sent.length, before + 2);
  clock.tick(1_000);
  assert.equal(sent.length, before + 2);
  peer.event(info("s"));
  assert.equal(sent.length, before + 3);
});

test("events that the client opted out of are not sent, nor unwanted deltas", () => {
  const { peer, sent, call } = connection();
  call(1, "client.capabilities", { events: { opt_out: ["sessions.changed"], deltas: "final" } });
  const before = sent.length;
  peer.event(info("s"));
  peer.event({ type: "message.delta", session_id: "s", ts: 0, payload: { text: "a" } });
  assert.equal(sent.length, before);
  peer.event(closing("s"));
  assert.equal(sent.length, before + 1);
});

const fields = { request_id: "ask_1", question: "Which?", choices: null, expires_at: null };
const question = { session_id: "s", ...fields, payload: fields };

test("a question is sent under its own id, and the answer arrives", async () => {
  const { peer, sent } = connection();
  const answer = peer.ask("clarify", "ask_1", question);
  assert.deepEqual(sent[1], { jsonrpc: "2.0", id: "ask_1", method: "clarify", params: question });
  peer.receive('{"jsonrpc":"2.0","id":"ask_1","result":{"answer":"this"}}');
  assert.deepEqual(await answer, { status: "answered", result: { answer: "this" } });
});

test("an error declines; an answer that does not match is reported, and its text is not logged", async () => {
  const { peer, logLines } = connection();
  const first = peer.ask("clarify", "ask_1", question);
  peer.receive('{"jsonrpc":"2.0","id":"ask_1","error":{"code":-32601,"message":"no"}}');
  assert.deepEqual(await first, { status: "declined" });
  const second = peer.ask("clarify", "ask_1", question);
  peer.receive('{"jsonrpc":"2.0","id":"ask_1","result":["hunter22"]}');
  assert.deepEqual(await second, { status: "invalid", issue: "result must be an object" });
  assert.match(logLines.join(), /the host declined a question/);
  assert.doesNotMatch(logLines.join(), /hunter22/);
});

test("a question ends with its signal or with the connection", async () => {
  const { peer, hub, closed } = connection();
  const stop = new AbortController();
  const first = peer.ask("clarify", "ask_1", question, { signal: stop.signal });
  stop.abort();
  assert.deepEqual(await first, { status: "gone" });
  const second = peer.ask("clarify", "ask_2", question);
  hub.close();
  assert.deepEqual(await second, { status: "gone" });
  assert.deepEqual(await peer.ask("clarify", "ask_3", question), { status: "gone" });
  assert.deepEqual(closed, [[1001, "shutdown"]]);
  assert.equal(hub.size, 0);
});
