import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnyMessage } from "@agentclientprotocol/sdk/unstable";
import { Wire } from "../../../src/acp/wire/wire.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { FrameOutput } from "../../../src/base/system/frame-output.ts";

/** A client that reads as much as a test lets it. */
function place() {
  const clock = new FakeClock();
  const written: AnyMessage[] = [];
  let waiting = 0;
  let drain = () => {};
  let breakOff = () => {};
  const output: FrameOutput = {
    write: (text) => {
      waiting += text.length;
      written.push(JSON.parse(text) as AnyMessage);
    },
    buffered: () => waiting,
    onDrain: (run) => void (drain = run),
    onBroken: (run) => void (breakOff = run),
    flushed: async () => {},
  };
  let ends = 0;
  const input = new TransformStream<Uint8Array, Uint8Array>();
  const feed = input.writable.getWriter();
  const wire = new Wire({ input: input.readable, output, clock, onEnd: () => void (ends += 1) });
  const [reader, writer] = [wire.stream.readable.getReader(), wire.stream.writable.getWriter()];
  return {
    wire,
    clock,
    written,
    reader,
    ends: () => ends,
    send: (message: object) => writer.write({ jsonrpc: "2.0", ...message } as AnyMessage),
    say: (...messages: readonly object[]) =>
      void feed.write(
        new TextEncoder().encode(
          messages.map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`).join(""),
        ),
      ),
    leave: () => void feed.close(),
    read: () => {
      waiting = 0;
      drain();
    },
    breakOff: () => breakOff(),
  };
}

const turn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));
async function isPending(work: Promise<unknown>): Promise<boolean> {
  await turn();
  return Promise.race([work.then(() => false), turn().then(() => true)]);
}

test("at the end of the input the stream stays open until every request is answered", async () => {
  const { reader, say, leave, send, ends } = place();
  say({ id: 1, method: "a" }, { id: 1, method: "again" }, { method: "note" });
  leave();
  for (let at = 0; at < 3; at += 1) assert.equal((await reader.read()).done, false);
  const end = reader.read();
  assert.equal(await isPending(end), true);
  assert.equal(ends(), 1);
  await send({ id: 1, result: {} });
  assert.equal(await isPending(end), true);
  await send({ id: 1, result: {} });
  assert.equal((await end).done, true);
});

test("a request that is never answered does not keep the connection for more than 2 s", async () => {
  const { reader, say, leave, clock } = place();
  say({ id: 1, method: "a" });
  leave();
  await reader.read();
  const end = reader.read();
  assert.equal(await isPending(end), true);
  clock.tick(2_000);
  assert.equal((await end).done, true);
});

test("senders wait while the client does not read", async () => {
  const { send, read } = place();
  const update = { method: "session/update", params: { text: "x".repeat(600_000) } };
  await send(update);
  const second = send(update);
  assert.equal(await isPending(second), true);
  read();
  await second;
});

test("reading pauses while the client does not read its responses", async () => {
  const { reader, say, read, written, send } = place();
  void send({ method: "session/update", params: { text: "x".repeat(9e6) } });
  await turn();
  say({ nonsense: 1 });
  await turn();
  say({ nonsense: 2 }, { method: "behind" });
  const next = reader.read();
  assert.equal(await isPending(next), true);
  assert.equal(written.length, 2);
  read();
  assert.deepEqual((await next).value, { jsonrpc: "2.0", method: "behind" });
  assert.equal(written.length, 3);
});

test("more than 1024 open requests are rejected, and the connection continues", async () => {
  const { reader, say, written, send } = place();
  say(...Array.from({ length: 1_025 }, (_, id) => ({ id, method: "a" })), { method: "last" });
  for (let at = 0; at < 1_024; at += 1) await reader.read();
  assert.deepEqual((await reader.read()).value, { jsonrpc: "2.0", method: "last" });
  const [refused] = written as { id: number; error: { data: { kind: string } } }[];
  assert.deepEqual([refused?.id, refused?.error.data.kind], [1_024, "overloaded"]);
  await send({ id: 0, result: {} });
  say({ id: 9_999, method: "a" });
  assert.equal(((await reader.read()).value as { id: number }).id, 9_999);
});

test("a hook after a response runs after it", async () => {
  const { wire, reader, say, send, written } = place();
  say({ id: 1, method: "a" });
  await reader.read();
  const seen: number[] = [];
  wire.afterAnswer(1, () => seen.push(written.length));
  await send({ method: "session/update", params: {} });
  assert.deepEqual(seen, []);
  await send({ id: 1, result: {} });
  assert.deepEqual(seen, [2]);
});

test("a broken output ends the connection and all waits", async () => {
  const { reader, send, breakOff, ends } = place();
  await send({ method: "session/update", params: { text: "x".repeat(600_000) } });
  const stuck = send({ method: "session/update", params: { text: "x".repeat(600_000) } });
  const end = reader.read();
  assert.equal(await isPending(stuck), true);
  breakOff();
  await stuck;
  assert.equal((await end).done, true);
  assert.equal(ends(), 1);
});

test("ending from our side equals the end of the input", async () => {
  const { wire, reader, say, send } = place();
  say({ id: 1, method: "a" });
  await reader.read();
  const end = reader.read();
  wire.end();
  assert.equal(await isPending(end), true);
  await send({ id: 1, result: {} });
  assert.equal((await end).done, true);
});
