import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { Writable } from "node:stream";
import {
  connectGateway,
  stdioTransport,
  TransportError,
  type GatewayTransport,
} from "../../../src/client/gateway.ts";
import { connect, readUntil } from "../../harness/gateway-client.ts";
import { createScriptedGateway } from "../../harness/scripted-gateway.ts";

test("a submit has a name, also when its caller says that it has none", async () => {
  const gateway = createScriptedGateway();
  await using client = await connect(gateway.transport);
  const params = { session_id: "s", text: "hi" };
  await client.call("prompt.submit", { ...params, client_turn_id: undefined } as unknown as typeof params);
  const sent = gateway.sent.find(({ method }) => method === "prompt.submit");
  assert.match(sent?.params.client_turn_id, /./);
});

test("a submit to a session that could not be attached to for now is not made", async () => {
  const gateway = createScriptedGateway({
    refuse: ({ method }) =>
      method === "session.activate"
        ? { code: -32001, message: "overloaded", data: { reason: "overloaded", retryable: true } }
        : undefined,
  });
  await using client = await connect(gateway.transport);
  await assert.rejects(client.call("prompt.submit", { session_id: "s", text: "hi" }), {
    name: "GatewayError",
    reason: "overloaded",
  });
  assert.ok(!gateway.sent.some(({ method }) => method === "prompt.submit"));
});

test("what is asked for under a signal that has aborted is not sent", async () => {
  const gateway = createScriptedGateway();
  await using client = await connect(gateway.transport);
  const signal = AbortSignal.abort(new Error("no more"));
  await assert.rejects(client.call("session.create", {}, { signal }), { message: "no more" });
  await client.call("ping");
  assert.ok(!gateway.sent.some(({ method }) => method === "session.create"));
});

test("however many sessions there are, few are attached to at once after a cut", async () => {
  const COUNT = 300;
  let created = 0;
  let [resumed, open, most] = [0, 0, 0];
  const gateway = createScriptedGateway({
    answer: ({ method }) => {
      if (method === "session.create") return { session_id: `s${++created}` };
      if (method !== "session.resume") return undefined;
      return { open_requests: [], latest_seq: 0, truncated: false, epoch: "e" };
    },
  });
  const counting: GatewayTransport = {
    async open(sink, signal) {
      const frame = (text: string) => {
        if (text.includes('"open_requests"')) open -= 1;
        sink.frame(text);
      };
      const link = await gateway.transport.open({ ...sink, frame }, signal);
      const send = (text: string) => {
        if (text.includes('"session.resume"')) [resumed, open] = [resumed + 1, open + 1];
        most = Math.max(most, open);
        link.send(text);
      };
      return { ...link, send };
    },
  };
  await using client = await connect(counting);
  for (let n = 0; n < COUNT; n++) await client.call("session.create");
  const events = client.events();
  gateway.cut();
  await readUntil(events, ({ type, payload }) => type === "client.state" && payload.state === "open");
  assert.equal(resumed, COUNT);
  assert.ok(most > 1 && most <= 128, `${most} at once, and the gateway refuses more than 256`);
});

for (const text of [
  "null",
  "5",
  "[]",
  '{"method":"event"}',
  '{"jsonrpc":"2.0","method":"event","params":7}',
]) {
  test(`a frame that is none ends the connection and nothing else: ${text}`, async () => {
    let strange: ((text: string) => void) | undefined;
    const { transport } = createScriptedGateway();
    const watched: GatewayTransport = {
      open: (sink, signal) => {
        strange = sink.frame;
        return transport.open(sink, signal);
      },
    };
    await using client = await connect(watched);
    const events = client.events();
    assert.doesNotThrow(() => strange?.(text));
    strange?.("no JSON at all");
    const all = await readUntil(
      events,
      ({ type, payload }) => type === "client.state" && payload.state === "open",
    );
    assert.ok(all.some(({ type, payload }) => type === "client.state" && payload.state === "reconnecting"));
    assert.equal(client.state, "open");
  });
}

test("a signal that outlives its clients keeps none of them", async () => {
  const { signal } = new AbortController();
  for (let n = 0; n < 3; n++) {
    const { transport } = createScriptedGateway();
    const client = await connectGateway({ transport, signal });
    await client.close();
  }
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a pipe that breaks while something is written ends the client and not the program", async () => {
  const writable = new Writable({ write: (_bytes, _encoding, done) => done(new Error("EPIPE")) });
  const ready = { type: "gateway.ready", ts: 0, payload: { protocol: { min_version: 1 }, limits: {} } };
  async function* readable() {
    yield new TextEncoder().encode(`${JSON.stringify({ method: "event", params: ready })}\n`);
    await new Promise((resolve) => writable.once("close", resolve));
  }
  const connecting = connectGateway({ transport: stdioTransport({ readable: readable(), writable }) });
  await assert.rejects(connecting, TransportError);
});
