/** Hosts that do not read: what waits for them is bounded, deltas go first, nothing else is lost, and others live on. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { currentRuntime } from "../../../src/base/system/machine.ts";
import { serveStdio } from "../../../src/rpc/connection/stdio.ts";
import { connectRaw, type RawHost } from "../../harness/rpc-raw.ts";
import { connectSocket, RpcHost, type Json } from "../../harness/rpc.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { openSession, takeTurn } from "./scenario.ts";

const discover = (id: number) => JSON.stringify({ jsonrpc: "2.0", id, method: "rpc.discover" });
const isDelta = ({ type }: Json) => type.endsWith(".delta");
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));

/** Whether more than half of what may wait for the connection waits. */
async function isHalfFull(peer: { drained(): Promise<void> }): Promise<boolean> {
  let isFree = false;
  void peer.drained().then(() => (isFree = true));
  await turnOfLoop();
  return !isFree;
}

/** A service with a host that reads, and one that does not while big answers wait for it. */
class Stage implements AsyncDisposable {
  readonly service: TestService;
  readonly reader: RpcHost;
  readonly slow: RawHost;
  readonly sessionId: string;
  #next = 1;

  private constructor(from: Pick<Stage, "service" | "reader" | "slow" | "sessionId">) {
    this.service = from.service;
    this.reader = from.reader;
    this.slow = from.slow;
    this.sessionId = from.sessionId;
  }

  /** The slow host follows the session too; it has read everything so far. */
  static async open(script: Script): Promise<Stage> {
    const service = await startTestService({ script });
    const reader = await connectSocket(service);
    const slow = await connectRaw(service, `/api/ws?token=${KEY}`);
    await slow.event("gateway.ready");
    const sessionId = await openSession(reader);
    await takeTurn(reader, sessionId, "first");
    await slow.result("session.activate", { session_id: sessionId });
    return new Stage({ service, reader, slow, sessionId });
  }

  get hub() {
    return this.service.service.hub;
  }

  get slowPeer() {
    const { connection_id: id } = this.slow.frames[0].params.payload;
    return [...this.hub].find((peer) => peer.id === id);
  }

  /** The slow host asks for big answers and does not read them, until so it is. */
  async stuffUntil(isEnough: () => Promise<boolean> | boolean): Promise<void> {
    this.slow.pause();
    while (!(await isEnough())) {
      this.slow.send(JSON.parse(discover(this.#next++)));
      await this.reader.result("ping");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.slow[Symbol.asyncDispose]();
    await this.reader[Symbol.asyncDispose]();
    await this.service[Symbol.asyncDispose]();
  }
}

test("a socket that does not read misses only deltas, and the next delta counts them", async () => {
  const [missed, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using stage = await Stage.open(({ user }) => ({ text: user === "long" ? words() : "hello" }));
  const { reader, slow, sessionId } = stage;
  const peer = stage.slowPeer;
  assert.ok(peer);
  /** The transport may take more at any time, so it is filled before each word, until one surely came while it was full. */
  const words = async function* () {
    for (let n = 0, isMissed = false; !isMissed; n++) {
      await stage.stuffUntil(() => isHalfFull(peer));
      let isFree = false;
      void peer.drained().then(() => (isFree = true));
      yield `word ${n} `;
      await reader.event("message.delta", ({ payload }) => payload.text.includes(`word ${n} `));
      // The other follower has heard the same by now.
      await reader.result("session.usage", { session_id: sessionId });
      isMissed = !isFree;
    }
    missed.resolve();
    await gate.promise;
    yield "and the rest";
  };
  const submitted = await reader.result("prompt.submit", { session_id: sessionId, text: "long" });
  const { turn_id: turnId } = submitted;
  await missed.promise;
  slow.resume();
  await peer.drained();
  gate.resolve();
  const isEnd = (event: Json) => event.turn_id === turnId;
  const { payload: complete } = await reader.event("message.complete", isEnd);
  await slow.event("message.complete", isEnd);
  const ofTurn = (host: RpcHost) => host.events(sessionId).filter((event) => event.turn_id === turnId);
  const controls = (host: RpcHost) =>
    ofTurn(host)
      .filter((event) => !isDelta(event) && event.seq !== undefined)
      .map(({ type, seq }) => [type, seq]);
  const upToEnd = (all: Json[]) => all.slice(0, all.findIndex(([type]) => type === "message.complete") + 1);
  assert.deepEqual(upToEnd(controls(slow)), upToEnd(controls(reader)), "no control event is lost");
  const deltas = ofTurn(slow).filter(({ type }) => type === "message.delta");
  assert.ok(
    deltas.some(({ payload }) => payload.dropped > 0),
    "what was left out is counted",
  );
  const heard = ofTurn(reader).filter(({ type }) => type === "message.delta");
  assert.ok(deltas.length < heard.length, "what came meanwhile was left out or merged");
  const [whole] = ofTurn(slow).filter(({ type }) => type === "message.complete");
  assert.equal(whole.payload.text, complete.text);
  assert.deepEqual(await slow.result("ping"), { pong: true }, "it lives on");
});

test("a socket with too many waiting bytes is closed with 1013, and its cursor returns everything it missed", async () => {
  await using stage = await Stage.open(() => ({ text: "hello" }));
  const { reader, slow, sessionId, service } = stage;
  const epoch = slow.frames[0].params.payload.replay_epoch;
  await takeTurn(reader, sessionId, "second");
  await stage.stuffUntil(() => stage.slowPeer === undefined);
  assert.ok(service.logLines.some((line) => line.includes("does not read")));
  await takeTurn(reader, sessionId, "third");
  slow.resume();
  const code = await slow.wire.closed;
  // Deno cuts a host that sends on behind our close, and the code with it.
  if (code !== null || currentRuntime().name !== "deno") assert.equal(code, 1013);
  const numbered = (host: RpcHost) => host.events(sessionId).filter(({ seq }) => seq !== undefined);
  const lastSeen = Math.max(
    ...numbered(reader)
      .slice(0, 1)
      .map(({ seq }) => seq - 1),
    ...numbered(slow).map(({ seq }) => seq),
  );
  await using again = await connectSocket(service);
  const cursor = { epoch, last_seen: lastSeen };
  const resumed = await again.result("session.activate", { session_id: sessionId, cursor });
  assert.equal(resumed.truncated, false);
  const latest = numbered(reader).at(-1).seq;
  await again.frame(({ params }) => params?.session_id === sessionId && params.seq === latest);
  const seen = (host: RpcHost) =>
    numbered(host).flatMap(({ seq, first_seq: first = seq }) =>
      Array.from({ length: seq - first + 1 }, (_, n) => first + n),
    );
  const expected = Array.from({ length: latest - lastSeen }, (_, n) => lastSeen + 1 + n);
  assert.deepEqual(seen(again), expected, "each event once, in order");
  assert.deepEqual(await reader.result("ping"), { pong: true }, "its neighbour lives on");
});

test("on stdio, reading pauses while too much waits to be written, and nothing is lost", async () => {
  await using service = await startTestService();
  const { hub } = service.service;
  const host = new RpcHost();
  const total = 400;
  let [isFull, pulled, drain] = [true, 0, () => {}];
  async function* input() {
    for (; pulled < total; pulled++) {
      host.validator.fromHost(JSON.parse(discover(pulled)));
      yield new TextEncoder().encode(`${discover(pulled)}\n`);
    }
  }
  const served = serveStdio({
    hub,
    identity: { owner: "default", scopes: ["admin"] },
    input: Readable.from(input()),
    output: {
      write: (text) => host.take(text),
      buffered: () => (isFull ? Number.MAX_SAFE_INTEGER : 0),
      onDrain: (run) => (drain = run),
      onBroken: () => {},
      flushed: async () => {},
    },
    signal: new AbortController().signal,
  });
  const [peer] = hub;
  assert.ok(peer);
  while (!(await isHalfFull(peer))) await turnOfLoop();
  const stoppedAt = pulled;
  for (let n = 0; n < 50; n++) await turnOfLoop();
  assert.equal(pulled, stoppedAt, "nothing is read that could not be answered");
  assert.ok(stoppedAt < total, "it stopped before the end");
  isFull = false;
  drain();
  await served;
  const ids = host.frames.filter(({ id }) => id !== undefined).map(({ id }) => id);
  assert.deepEqual(
    ids,
    Array.from({ length: total }, (_, n) => n),
  );
});
