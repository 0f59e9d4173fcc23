import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import {
  ConnectionCutError,
  GatewayError,
  webSocketTransport,
  type GatewayClient,
  type GatewayClientEvent,
} from "../../../src/client/gateway.ts";
import { testTool } from "../../harness/agent.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import {
  connect,
  endsTurn,
  numbered,
  processOn,
  readUntil,
  socketTo,
  watched,
} from "../../harness/gateway-client.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

/** A turn with reasoning, text and a tool. */
const script: Script = ({ step }) =>
  step === 0
    ? {
        reasoning: "I had better look.",
        text: "I look it up.",
        chunkSize: 3,
        calls: [{ tool: "terminal", input: { command: "look" } }],
      }
    : { text: "It is as you thought, all of it.", chunkSize: 5 };

function startWithTool(): Promise<TestService> {
  return startTestService({
    // A title that arrives late is one more event.
    config: { sessions: { titles: "off" } },
    script,
    tools: [testTool(async ({ command }) => `${command}: done`)],
  });
}

/** What was told, whatever deltas were merged on the way; asserts that each number came once, in order, without a gap. */
function story(events: readonly GatewayClientEvent[]): unknown[] {
  const told: { type: string; turn?: string | undefined; payload: Record<string, unknown> }[] = [];
  let next = 1;
  for (const event of numbered(events)) {
    const first = "first_seq" in event ? (event.first_seq ?? event.seq) : event.seq;
    assert.equal(first, next, `after ${next - 1} comes ${first}`);
    next = (event.seq ?? 0) + 1;
    const { type, turn_id: turn } = event;
    const payload = { ...event.payload } as Record<string, unknown>;
    const last = told.at(-1);
    const merges = type.endsWith(".delta") && last?.type === type && last.turn === turn;
    if (!merges) told.push({ type, turn, payload });
    else if (type === "thinking.delta") last.payload = payload;
    else last.payload["text"] = `${String(last.payload["text"])}${String(payload["text"])}`;
    if (type === "message.complete") break;
  }
  return told;
}

/** One turn of a client, beside one that is never cut: both hear the same. */
async function holdTurn(client: GatewayClient, witness: GatewayClient, sessionId: string): Promise<void> {
  await witness.call("session.activate", { session_id: sessionId });
  const heard = client.events({ sessionId });
  const uncut = witness.events({ sessionId });
  await client.call("prompt.submit", { session_id: sessionId, text: "what is it?" });
  const [all, truth] = await Promise.all([
    readUntil(heard, (event) => endsTurn(event)),
    readUntil(uncut, (event) => endsTurn(event)),
  ]);
  assert.deepEqual(story(all), story(truth));
  await witness.call("session.detach", { session_id: sessionId });
}

async function createAnyway(client: GatewayClient): Promise<string> {
  for (;;) {
    try {
      return (await client.call("session.create")).session_id;
    } catch (error) {
      if (!(error instanceof ConnectionCutError)) throw error;
    }
  }
}

test("a connection that is cut behind any of a turn's frames loses and repeats nothing", async () => {
  await using service = await startWithTool();
  await using witness = await connect(socketTo(service));
  let cuts = 0;
  for (let at = 1; ; at++) {
    const transport = socketTo(service);
    await using client = await connect(transport);
    const { session_id } = await client.call("session.create");
    let count = 0;
    transport.cutAt = () => ++count === at;
    await holdTurn(client, witness, session_id);
    assert.equal(transport.problem, undefined);
    if (transport.connections === 1) break;
    cuts += 1;
  }
  assert.ok(cuts > 15, `${cuts} cuts`);
});

test("a connection that brings one event each time brings them all", async () => {
  await using service = await startWithTool();
  await using witness = await connect(socketTo(service));
  const transport = socketTo(service);
  await using client = await connect(transport);
  const { session_id } = await client.call("session.create");
  transport.cutAt = ({ method, params }) => method === "event" && params.session_id === session_id;
  await holdTurn(client, witness, session_id);
  assert.ok(transport.connections > 8, `${transport.connections} connections`);
  assert.equal(transport.problem, undefined);
});

test("a stream that is cut at any byte loses and repeats nothing", async () => {
  await using service = await startWithTool();
  await using witness = await connect(socketTo(service));
  for (let bytes = 150; bytes < 6_000; bytes += 131) {
    await using proxy = await startCuttingProxy(service.url, [bytes, 2 * bytes, bytes + 977, 3 * bytes]);
    const transport = watched(webSocketTransport({ url: proxy.url, token: KEY }));
    await using client = await connect(transport, {
      reconnect: { minMs: 1, maxMs: 20, attempts: 200, first: true },
    });
    await holdTurn(client, witness, await createAnyway(client));
    assert.ok(proxy.cuts > 0);
    assert.equal(transport.problem, undefined);
  }
});

test("a service that is stopped and started again continues with the session", async () => {
  let service = await startWithTool();
  try {
    const transport = watched(
      webSocketTransport({
        get url() {
          return service.url;
        },
        token: KEY,
      }),
    );
    await using client = await connect(transport);
    const { session_id } = await client.call("session.create");
    const unused = (await client.call("session.create")).session_id;
    const events = client.events();
    await client.call("prompt.submit", { session_id, text: "first" });
    const before = await readUntil(events, (event) => endsTurn(event));
    service = await service.restart({ script });
    const submitted = await client.call("prompt.submit", { session_id, text: "second" });
    assert.equal(submitted.duplicate, undefined);
    const after = await readUntil(events, (event) => endsTurn(event, submitted.turn_id));
    const seqs = numbered([...before, ...after]).map(({ seq }) => seq);
    assert.deepEqual(
      seqs,
      seqs.map((_, at) => at + 1),
    );
    // A session that was never used is kept by no store.
    const lost = after.find((event) => event.type === "client.lost");
    assert.deepEqual([lost?.session_id, lost?.payload.code], [unused, 4007]);
    assert.equal(client.cursor(unused), undefined);
    const states = after.flatMap((event) => (event.type === "client.state" ? [event.payload.state] : []));
    assert.deepEqual([states[0], states.at(-1)], ["reconnecting", "open"]);
    assert.equal(transport.problem, undefined);
  } finally {
    await service[Symbol.asyncDispose]();
  }
});

test("an agentd rpc that is killed in a turn is started again; the turn ends once, the session continues", async () => {
  const home = await mkdtemp(join(tmpdir(), "agentd-client-"));
  try {
    const pidFile = join(home, "pid");
    const transport = processOn(home, { pidFile });
    await using client = await connect(transport);
    const { session_id } = await client.call("session.create");
    const events = client.events({ sessionId: session_id });
    const turn = await client.call("prompt.submit", { session_id, text: "run: sleep 5" });
    const before = await readUntil(events, (event) => event.type === "tool.start");
    process.kill(Number(await readFile(pidFile, "utf8")), "SIGKILL");
    const after = await readUntil(events, (event) => event.type === "message.complete");
    const complete = after.at(-1);
    assert.ok(complete?.type === "message.complete" && complete.turn_id === turn.turn_id);
    assert.notEqual(complete.payload.status, "complete");
    const next = await client.call("prompt.submit", { session_id, text: "hello again" });
    const rest = await readUntil(events, (event) => endsTurn(event, next.turn_id));
    const told = numbered([...before, ...after, ...rest]);
    assert.deepEqual(
      told.map((event) => ("first_seq" in event ? (event.first_seq ?? event.seq) : event.seq)),
      [1, ...told.slice(0, -1).map(({ seq }) => (seq ?? 0) + 1)],
    );
    assert.equal(told.filter(({ type }) => type === "message.complete").length, 2);
    assert.equal(transport.connections, 2);
    assert.equal(transport.problem, undefined);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});

test("a submit that was cut is sent again under its name and makes one turn", async () => {
  await using service = await startWithTool();
  const transport = socketTo(service);
  await using client = await connect(transport);
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  // The turn begins, and the answer is lost with the connection.
  const answered = new Promise<void>((resolve) => {
    transport.cutAt = ({ result }) => {
      if (result?.turn_id === undefined) return false;
      resolve();
      return true;
    };
  });
  transport.loses = ({ result }) => result?.turn_id !== undefined && transport.connections === 1;
  const submitted = client.call("prompt.submit", { session_id, text: "once" });
  const usage = client.call("session.usage", { session_id });
  await answered;
  assert.equal((await usage).model, "demo:demo");
  const { duplicate, turn_id } = await submitted;
  assert.equal(duplicate, true);
  await readUntil(events, (event) => endsTurn(event, turn_id));
  const { messages } = await client.call("session.history", { session_id });
  assert.equal(messages.filter(({ role }) => role === "user").length, 1);
  assert.equal(transport.problem, undefined);
});

test("a call that changes something rejects when it is cut, and one that was not sent waits", async () => {
  await using service = await startWithTool();
  const transport = socketTo(service);
  await using client = await connect(transport);
  const cut = client.call("session.create");
  transport.cut();
  const later = client.call("session.create");
  await assert.rejects(cut, ConnectionCutError);
  assert.ok((await later).session_id);
  assert.equal(transport.connections, 2);
});

test("events of a session that another client opened are missed by no submit", async () => {
  await using service = await startWithTool();
  await using witness = await connect(socketTo(service));
  const { session_id } = await witness.call("session.create");
  const transport = socketTo(service);
  await using client = await connect(transport);
  transport.cutAt = ({ result }) => result?.turn_id !== undefined && transport.connections === 1;
  await holdTurn(client, witness, session_id);
  assert.equal(transport.connections, 2);
  const unknown = await client
    .call("prompt.submit", { session_id: "none", text: "x" })
    .catch((error: unknown) => error);
  assert.ok(unknown instanceof GatewayError && unknown.code === 4001);
});

test("when events have been removed, the host is asked to read the history", async () => {
  await using service = await startWithTool();
  const transport = socketTo(service);
  await using client = await connect(transport);
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  await client.call("prompt.submit", { session_id, text: "x" });
  await readUntil(events, (event) => endsTurn(event));
  transport.tamper = (frame) => {
    if (frame.params?.cursor) frame.params.cursor.epoch = "another";
    return frame;
  };
  transport.cut();
  const all = await readUntil(events, (event) => event.type === "client.gap");
  const gap = all.at(-1);
  assert.ok(gap?.type === "client.gap" && gap.payload.reason === "truncated");
  assert.deepEqual(gap.payload.cursor, client.cursor(session_id));
  assert.equal(gap.payload.cursor.epoch, client.ready.replay_epoch);
});

test("a cursor that the host kept continues where it stopped", async () => {
  await using service = await startWithTool();
  const first = await connect(socketTo(service));
  const { session_id } = await first.call("session.create");
  const events = first.events({ sessionId: session_id });
  await first.call("prompt.submit", { session_id, text: "x" });
  const all = await readUntil(events, (event) => endsTurn(event));
  await first.close();
  const [, second] = numbered(all);
  await using client = await connect(socketTo(service));
  const again = client.events({ sessionId: session_id });
  const cursor = { epoch: client.ready.replay_epoch, last_seen: second?.seq ?? 0 };
  const { truncated } = await client.call("session.resume", { session_id, cursor, omit_messages: true });
  assert.equal(truncated, false);
  const rest = await readUntil(again, (event) => endsTurn(event));
  assert.deepEqual(story([...numbered(all).slice(0, 2), ...rest]), story(all));
});
