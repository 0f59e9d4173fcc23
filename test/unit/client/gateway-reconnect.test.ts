import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import {
  connectGateway,
  GatewayClosedError,
  stdioTransport,
  TransportError,
  type GatewayClient,
} from "../../../src/client/gateway.ts";
import { connect, readUntil } from "../../harness/gateway-client.ts";
import { createScriptedGateway } from "../../harness/scripted-gateway.ts";

/** Lets everything run that is due, until a fact holds. */
async function until(fact: () => boolean): Promise<void> {
  const giveUpMs = Date.now() + 60_000;
  while (!fact()) {
    assert.ok(Date.now() < giveUpMs, `never: ${fact}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function stateOf(client: GatewayClient, state: string): Promise<void> {
  await until(() => client.state === state);
}

test("attempts wait twice as long each time, with jitter, up to the longest, and end after so many", async () => {
  const clock = new FakeClock();
  let isDown = false;
  const gateway = createScriptedGateway({
    admit: () => {
      if (isDown) throw new TransportError("down");
    },
  });
  const client = await connectGateway({
    transport: gateway.transport,
    clock,
    reconnect: { minMs: 1_000, maxMs: 10_000, attempts: 6 },
  });
  const events = client.events();
  clock.tick(60_000); // it stood for a while
  isDown = true;
  gateway.cut();
  const waits: number[] = [];
  for (;;) {
    const { value: notice } = await events.next();
    if (notice?.type !== "client.state") continue;
    if (notice.payload.state === "closed") break;
    assert.equal(notice.payload.attempt, waits.length);
    const { connections } = gateway;
    let waitedMs = 0;
    for (; gateway.connections === connections; waitedMs += 50) clock.tick(50);
    waits.push(waitedMs);
  }
  const bounds = [
    [0, 250],
    [500, 1_000],
    [1_000, 2_000],
    [2_000, 4_000],
    [4_000, 8_000],
    [5_000, 10_000],
    [5_000, 10_000],
  ];
  assert.equal(waits.length, bounds.length, String(waits));
  for (const [at, [min = 0, max = 0]] of bounds.entries()) {
    const waitedMs = waits[at] ?? -1;
    assert.ok(waitedMs >= min && waitedMs <= max + 50, `${at}: ${waits.join(" ")}`);
  }
  await assert.rejects(
    readUntil(events, () => false),
    GatewayClosedError,
  );
  const closed = await client.closed;
  assert.ok(closed instanceof GatewayClosedError && closed.cause instanceof TransportError);
});

test("reconnectNow ends the wait for the next attempt, and attempts without end never close the client", async () => {
  const clock = new FakeClock();
  let isDown = false;
  const gateway = createScriptedGateway({
    admit: () => {
      if (isDown) throw new TransportError("down");
    },
  });
  const client = await connectGateway({
    transport: gateway.transport,
    clock,
    reconnect: { minMs: 1_000, maxMs: 10_000, attempts: Number.POSITIVE_INFINITY },
  });
  clock.tick(60_000);
  client.reconnectNow();
  assert.equal(gateway.connections, 1, "a connection that is open stays");
  isDown = true;
  gateway.cut();
  await stateOf(client, "reconnecting");
  for (let attempts = 1; attempts <= 30; attempts++) {
    const before: number = gateway.connections;
    client.reconnectNow();
    client.reconnectNow();
    assert.equal(gateway.connections, before + 1, "one attempt at a time");
    // The attempt fails, and the client waits again.
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(client.state, "reconnecting");
  }
  isDown = false;
  client.reconnectNow();
  await stateOf(client, "open");
  await client.close();
});

test("a connection that stands for a moment only counts as one that failed", async () => {
  const clock = new FakeClock();
  const gateway = createScriptedGateway();
  const client = await connectGateway({
    transport: gateway.transport,
    clock,
    reconnect: { minMs: 1_000, attempts: 3 },
  });
  for (let n = 0; n < 3; n++) {
    gateway.cut();
    await stateOf(client, "reconnecting");
    clock.tick(30_000);
    await stateOf(client, "open");
  }
  gateway.cut();
  assert.ok((await client.closed) instanceof GatewayClosedError);
  assert.equal(gateway.connections, 4);
});

test("reconnect: false, and a transport that has no other connection, end the client with the cut", async () => {
  const gateway = createScriptedGateway();
  const client = await connectGateway({ transport: gateway.transport, reconnect: false });
  const call = client.call("session.create");
  gateway.cut();
  assert.ok((await client.closed) instanceof GatewayClosedError);
  await call;
  await assert.rejects(client.call("ping"), GatewayClosedError);
  const pipe = new TransformStream<Uint8Array, Uint8Array>();
  const transport = stdioTransport({ readable: pipe.readable, writable: new WritableStream() });
  const waiting = connect(transport, { reconnect: { minMs: 1, first: true } });
  await pipe.writable.close();
  await assert.rejects(waiting, { name: "TransportError", message: "The pipes have ended." });
});

test("the first connection is tried once, or again where that is asked for", async () => {
  let failures = 2;
  const admit = () => {
    if (failures-- > 0) throw new TransportError("not yet");
  };
  await assert.rejects(connect(createScriptedGateway({ admit }).transport), { message: "not yet" });
  failures = 2;
  await using client = await connect(createScriptedGateway({ admit }).transport, {
    reconnect: { minMs: 1, first: true },
  });
  assert.equal(client.state, "open");
});

test("gateway.ready heartbeat: a ping each 15 s; after 45 s of silence the connection is dropped", async () => {
  const clock = new FakeClock();
  let isSilent = false;
  const gateway = createScriptedGateway({ heartbeat: true, answer: () => (isSilent ? null : {}) });
  const client = await connectGateway({ transport: gateway.transport, clock });
  const pings = () => gateway.sent.filter(({ method }) => method === "gateway.ping").length;
  for (let n = 1; n <= 10; n++) {
    clock.tick(15_000);
    await until(() => pings() === n);
    await client.call("ping"); // whatever comes is a sign of life
  }
  isSilent = true;
  clock.tick(44_000);
  assert.equal(client.state, "open");
  clock.tick(1_000);
  await stateOf(client, "reconnecting");
  clock.tick(1_000);
  isSilent = false;
  await until(() => gateway.connections === 2);
  await stateOf(client, "open");
  clock.tick(1_000);
  await client.close();
  assert.equal(clock.pending, 0, "no timer is left");
});

test("a gateway that is never ready is given up after 30 s", async () => {
  const clock = new FakeClock();
  const transport = stdioTransport({
    readable: new TransformStream<Uint8Array, Uint8Array>().readable,
    writable: new WritableStream(),
  });
  const connecting = connectGateway({ transport, clock });
  clock.tick(30_000);
  await assert.rejects(connecting, { name: "TransportError", message: "The gateway is not ready." });
  assert.equal(clock.pending, 0);
});

test("a peer that is not a gateway, or an outdated one, is reported differently from a disconnect", async () => {
  const transport = (text: string) =>
    stdioTransport({
      readable: new Response(text).body as ReadableStream<Uint8Array>,
      writable: new WritableStream(),
    });
  await assert.rejects(connect(transport("<html>\n")), {
    name: "TransportError",
    message: "Invalid frame.",
  });
  const ready = { protocol: { name: "agent-tui-gateway", version: 9, min_version: 8 }, limits: {} };
  const frame = { jsonrpc: "2.0", method: "event", params: { type: "gateway.ready", ts: 0, payload: ready } };
  await assert.rejects(connect(transport(`${JSON.stringify(frame)}\n`)), {
    name: "TransportError",
    message: "The gateway needs a newer client.",
    retryable: false,
  });
});

test("a different store is reported as a gap, with the new cursor", async () => {
  const sessions = { session_id: "s", open_requests: [] };
  const gateway = createScriptedGateway({
    epoch: (connection) => `e${connection}`,
    answer: ({ method, params }) => {
      if (method === "session.create") return { session_id: "s" };
      if (method !== "session.resume") return {};
      const isKept = params.cursor.epoch === "e2";
      return { ...sessions, epoch: "e2", latest_seq: 7, truncated: !isKept };
    },
  });
  await using client = await connect(gateway.transport);
  await client.call("session.create");
  assert.deepEqual(client.cursor("s"), { epoch: "e1", last_seen: 0 });
  const events = client.events();
  gateway.cut();
  const all = await readUntil(events, (event) => event.type === "client.gap");
  assert.deepEqual(all.at(-1)?.payload, { reason: "epoch", cursor: { epoch: "e2", last_seen: 7 } });
  assert.deepEqual(client.cursor("s"), { epoch: "e2", last_seen: 7 });
});

test("an event that was received before is not reported again", async () => {
  const gateway = createScriptedGateway({
    answer: ({ method }) => (method === "session.create" ? { session_id: "s" } : {}),
  });
  await using client = await connect(gateway.transport);
  await client.call("session.create");
  const events = client.events({ sessionId: "s" });
  const update = { type: "status.update", session_id: "s", ts: 0, payload: {} };
  for (const seq of [1, 2, 2, 1, undefined, 3]) gateway.tell({ ...update, seq });
  const all = await readUntil(events, (event) => "seq" in event && event.seq === 3);
  assert.deepEqual(
    all.map((event) => ("seq" in event ? event.seq : undefined)),
    [1, 2, undefined, 3],
  );
});

test("lines are cut at line feeds alone, wherever the pipe cuts its bytes", async () => {
  const event = {
    type: "status.update",
    session_id: "s",
    ts: 0,
    payload: { kind: "status", text: "a\u2028b\u00e9\u{1f642}" },
  };
  const ready = { type: "gateway.ready", ts: 0, payload: { protocol: { min_version: 1 }, limits: {} } };
  const line = (params: object) => `${JSON.stringify({ jsonrpc: "2.0", method: "event", params })}\r\n\n`;
  const answer = `${JSON.stringify({ jsonrpc: "2.0", id: "c1", result: {} })}\n`;
  const bytes = new TextEncoder().encode(`${line(ready)}${answer}${line(event)}`);
  async function* oneByOne() {
    for (const byte of bytes.slice(0, -4)) yield Uint8Array.of(byte);
    await client;
    await new Promise((resolve) => setImmediate(resolve));
    yield bytes.slice(-4);
  }
  const client = connect(stdioTransport({ readable: oneByOne(), writable: new WritableStream() }), {
    reconnect: false,
  });
  const events = (await client).events();
  const first = await events.next();
  assert.deepEqual(first.value, event);
});
