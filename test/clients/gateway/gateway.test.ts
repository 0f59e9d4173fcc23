import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gatewayRequests, type GatewayMethod } from "../../../generated/gateway/rpc.gen.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { REPEATABLE } from "../../../src/client/gateway/calls.ts";
import {
  connectGateway,
  GatewayClosedError,
  GatewayError,
  spawnTransport,
  TransportError,
  webSocketTransport,
  type GatewayClient,
} from "../../../src/client/gateway.ts";
import {
  connect,
  endsTurn,
  numbered,
  processOn,
  readUntil,
  socketTo,
  watched,
  type WatchedTransport,
} from "../../harness/gateway-client.ts";
import { createScriptedGateway } from "../../harness/scripted-gateway.ts";
import { KEY, startTestService } from "../../harness/service.ts";

type Stage = { readonly client: GatewayClient; readonly transport: WatchedTransport };

/** Runs the test over a socket to a service, and over a real `agentd rpc`. */
function onBoth(title: string, run: (stage: Stage) => Promise<void>): void {
  test(`${title} (socket)`, async () => {
    await using service = await startTestService({
      script: ({ user }) => ({ text: `You said ${user}.`, chunkSize: 4 }),
    });
    await held(socketTo(service), run);
  });
  test(`${title} (agentd rpc)`, async () => {
    const home = await mkdtemp(join(tmpdir(), "agentd-client-"));
    try {
      await held(processOn(home), run);
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });
}

/** All frames of both sides must fit the specs. */
async function held(transport: WatchedTransport, run: (stage: Stage) => Promise<void>): Promise<void> {
  {
    await using client = await connect(transport, { client: { name: "test", version: "1" } });
    await run({ client, transport });
  }
  assert.equal(transport.problem, undefined);
}

onBoth(
  "calls are answered by results, or by errors with code, reason and whether to retry",
  async ({ client }) => {
    assert.equal(client.state, "open");
    assert.equal(client.ready.protocol.name, "agent-tui-gateway");
    assert.deepEqual(await client.call("ping"), { pong: true });
    const created = await client.call("session.create", { title: "a title" });
    assert.equal((await client.call("session.title", { session_id: created.session_id })).title, "a title");
    const unknown = await client
      .call("session.usage", { session_id: "none" })
      .catch((error: unknown) => error);
    assert.ok(unknown instanceof GatewayError);
    assert.deepEqual([unknown.code, unknown.reason, unknown.retryable], [4001, "session_not_found", false]);
    const wrong = await client
      .call("session.list", { limit: "many" as unknown as number })
      .catch((error: unknown) => error);
    assert.ok(wrong instanceof GatewayError);
    assert.deepEqual([wrong.code, (wrong.data["issues"] as { path: string }[])[0]?.path], [-32602, "limit"]);
  },
);

onBoth("a turn's events come each once, in order, from the answer on", async ({ client, transport }) => {
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  const submitted = await client.call("prompt.submit", { session_id, text: "hello there" });
  assert.equal(submitted.status, "streaming");
  const all = await readUntil(events, (event) => endsTurn(event));
  const types = all.map(({ type }) => type);
  const complete = all.find((event) => event.type === "message.complete");
  const said = all.flatMap((event) => (event.type === "message.delta" ? [event.payload.text] : [])).join("");
  assert.equal(complete?.payload.text, said);
  assert.equal(types.filter((type) => type === "message.start").length, 1);
  const told = numbered(all).map(({ seq }) => seq);
  assert.equal(told[0], 1);
  // What the client heard is what came; its cursor may be further than what was read.
  const came = transport.received.flatMap(({ params }) =>
    params?.session_id === session_id && params.seq ? [params.seq as number] : [],
  );
  assert.deepEqual(told, came.slice(0, told.length));
  assert.deepEqual(client.cursor(session_id), {
    epoch: client.ready.replay_epoch,
    last_seen: came.at(-1),
  });
});

onBoth("close() ends the events, the calls in flight and the connection", async ({ client }) => {
  const events = client.events();
  const read = readUntil(events, () => false);
  const call = client.call("rpc.discover");
  await Promise.all([
    assert.rejects(read, /the events ended/),
    assert.rejects(call, { name: "ConnectionCutError" }),
    client.close(),
  ]);
  assert.equal(client.state, "closed");
  assert.equal(await client.closed, undefined);
  await assert.rejects(client.call("ping"), GatewayClosedError);
  assert.deepEqual(await client.events().next(), { done: true, value: undefined });
});

test("a call stops waiting when its signal aborts or its time is over; its late answer is dropped", async () => {
  await using service = await startTestService();
  const clock = new FakeClock();
  await using client = await connect(socketTo(service), { clock });
  const reason = new Error("enough");
  await assert.rejects(client.call("ping", {}, { signal: AbortSignal.abort(reason) }), reason);
  const stop = new AbortController();
  const aborted = client.call("rpc.discover", {}, { signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(aborted, reason);
  const late = client.call("rpc.discover", {}, { timeoutMs: 500 });
  clock.tick(500);
  await assert.rejects(late, { name: "TimeoutError", message: /rpc\.discover/ });
  assert.deepEqual(await client.call("ping"), { pong: true });
});

test("the client's own signal closes it, also while it connects", async () => {
  await using service = await startTestService();
  const stop = new AbortController();
  const client = await connect(socketTo(service), { signal: stop.signal });
  stop.abort();
  assert.equal(await client.closed, undefined);
  const reason = new Error("never mind");
  await assert.rejects(connect(socketTo(service), { signal: AbortSignal.abort(reason) }), reason);
});

test("a frame above the gateway's limit is refused before it is sent", async () => {
  await using service = await startTestService();
  const transport = socketTo(service);
  await using client = await connect(transport);
  const { session_id } = await client.call("session.create");
  const text = "x".repeat(client.ready.limits.max_frame_bytes);
  const error = await client.call("prompt.submit", { session_id, text }).catch((thrown: unknown) => thrown);
  assert.ok(error instanceof GatewayError);
  assert.deepEqual([error.code, error.reason], [-32600, "frame_too_large"]);
  assert.equal(transport.connections, 1);
});

test("optOut and deltas leave events out", async () => {
  await using service = await startTestService({ script: () => ({ text: "hello", chunkSize: 1 }) });
  await using client = await connect(socketTo(service), {
    deltas: "final",
    optOut: ["session.queue", "sessions.changed"],
  });
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  await client.call("prompt.submit", { session_id, text: "hi" });
  const types = (await readUntil(events, (event) => endsTurn(event))).map(({ type }) => type);
  assert.deepEqual(types, ["message.start", "status.update", "message.complete", "session.info"]);
});

test("unread events are bounded; the error says how far they were read", async () => {
  const { tell, transport } = createScriptedGateway();
  await using client = await connect(transport);
  const events = client.events();
  const told = (seq: number) => tell({ type: "status.update", session_id: "s", seq, ts: 0, payload: {} });
  told(1);
  assert.equal((await events.next()).value?.type, "status.update");
  for (let seq = 2; seq <= 8_194; seq++) told(seq);
  await client.call("ping"); // its answer comes behind them
  await assert.rejects(events.next(), (error: Error & { cursors: Map<string, unknown> }) => {
    assert.equal(error.name, "EventsLostError");
    assert.deepEqual([...error.cursors], [["s", { epoch: "e", last_seen: 1 }]]);
    return true;
  });
  const anew = client.events();
  told(8_195);
  assert.equal((await anew.next()).value?.type, "status.update");
});

test("deltas of one stream merge while they wait, others do not", async () => {
  const { tell, transport } = createScriptedGateway();
  await using client = await connect(transport);
  const events = client.events();
  const delta = (type: string, seq: number, text: string, more = {}) =>
    tell({ type, session_id: "s", turn_id: "t", seq, ts: 0, payload: { text, ...more } });
  for (let seq = 1; seq <= 20_000; seq++) delta("message.delta", seq, "x");
  delta("message.delta", 20_001, "y", { dropped: 2 });
  delta("thinking.delta", 20_002, "a");
  delta("thinking.delta", 20_003, "b");
  delta("message.delta", 20_004, "z");
  await client.call("ping"); // its answer comes behind them
  const first = (await events.next()).value;
  assert.ok(first?.type === "message.delta");
  assert.deepEqual([first.first_seq, first.seq, first.payload.dropped], [1, 20_001, 2]);
  assert.equal(first.payload.text, `${"x".repeat(20_000)}y`);
  const second = (await events.next()).value;
  assert.ok(second?.type === "thinking.delta");
  assert.deepEqual([second.first_seq, second.payload.text], [20_002, "b"]);
  const third = (await events.next()).value;
  assert.ok(third?.type === "message.delta" && third.payload.text === "z");
});

test("a wrong key, a closed port and a foreign server have distinct errors", async () => {
  await using service = await startTestService();
  const url = service.url;
  const wrong = await connectGateway({
    transport: webSocketTransport({ url, token: "wrong-secret" }),
  }).catch((error: unknown) => error);
  assert.ok(wrong instanceof TransportError);
  assert.ok(!wrong.message.includes("wrong-secret"), wrong.message);
  await assert.rejects(
    connectGateway({ transport: webSocketTransport({ url: "http://127.0.0.1:1", token: KEY }) }),
    TransportError,
  );
  const missing = connectGateway({ transport: spawnTransport({ command: "/nowhere/agentd" }) });
  await assert.rejects(missing, { name: "TransportError", message: "Cannot start /nowhere/agentd." });
});

test("a ticket is asked for with each connection", async () => {
  await using service = await startTestService();
  let tickets = 0;
  const ticket = async () => {
    tickets += 1;
    const answer = await service.request("/api/auth/ws-ticket", { method: "POST" });
    return ((await answer.json()) as { ticket: string }).ticket;
  };
  const transport = watched(webSocketTransport({ url: service.url, ticket }));
  await using client = await connect(transport);
  transport.cut();
  assert.deepEqual(await client.call("ping"), { pong: true });
  assert.equal(tickets, 2);
});

const repeatable: GatewayMethod[] = [
  "rpc.discover",
  "ping",
  "gateway.ping",
  "setup.status",
  "pet.cells",
  "prompt.submit",
  "session.list",
  "session.active_list",
  "session.most_recent",
  "session.activate",
  "session.resume",
  "session.history",
  "session.usage",
  "session.status",
  "session.events.since",
  "approval.pending",
  "config.get",
  "commands.catalog",
  "command.resolve",
  "complete.slash",
  "complete.path",
  "model.options",
  "process.list",
  "delegation.status",
  "spawn_tree.list",
  "spawn_tree.load",
  "skills.reload",
];

test("only what reads, and a submit that has a name, is sent again after a cut", () => {
  const methods = Object.keys(gatewayRequests) as GatewayMethod[];
  assert.deepEqual(methods.filter((method) => REPEATABLE.test(method)).sort(), repeatable.sort());
});
