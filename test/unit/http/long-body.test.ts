import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { longBody } from "../../../src/http/edge/answer.ts";
import { ReaderBudget } from "../../../src/store/journal/reader-budget.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const bytes = new Uint8Array(1_000_000).map((_, at) => at % 251);

function open(readers = new ReaderBudget()) {
  const clock = new FakeClock();
  return { readers, clock, body: longBody(bytes, { readers, clock, slowReaderMs: 100 }) };
}

test("a long body is sent completely, and counts until it is read", async () => {
  const { readers, clock, body } = open();
  assert.equal(readers.usedBytes, bytes.length);
  assert.deepEqual(new Uint8Array(await new Response(body).arrayBuffer()), bytes);
  assert.deepEqual([readers.usedBytes, clock.pending], [0, 0]);
});

test("a long body whose client stops reading is cut, and its budget is released", async () => {
  const { readers, clock, body } = open();
  const reader = body.getReader();
  await reader.read();
  clock.tick(100);
  await assert.rejects(reader.read(), /does not read/);
  assert.deepEqual([readers.usedBytes, clock.pending], [0, 0]);
});

test("a client that leaves in the middle of a long body releases the budget", async () => {
  const { readers, clock, body } = open();
  const reader = body.getReader();
  await reader.read();
  await reader.cancel();
  assert.deepEqual([readers.usedBytes, clock.pending], [0, 0]);
});

test("of too many long bodies, the one whose client does not read is cut", async () => {
  const readers = new ReaderBudget(2_500_000);
  const [silent, reading] = [open(readers).body.getReader(), open(readers).body.getReader()];
  await reading.read();
  const { body } = open(readers);
  await assert.rejects(silent.read(), /does not read/);
  assert.equal((await new Response(body).arrayBuffer()).byteLength, bytes.length);
  for (let next = await reading.read(); !next.done;) next = await reading.read();
  assert.equal(readers.usedBytes, 0);
});

/** A client that sends its request and reads nothing. */
function silentClient({ url }: TestService, target: string, body: string): Socket {
  const { hostname, port, host } = new URL(url);
  const head = [
    `${target} HTTP/1.1`,
    `host: ${host}`,
    `authorization: Bearer ${KEY}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  const socket = connect(Number(port), hostname).on("error", () => {});
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  return socket.pause();
}

test("unread answers stay within the limit, and other clients get theirs completely", async () => {
  const text = "A long answer. ".repeat(60_000);
  await using service = await startTestService({
    script: () => ({ text }),
    config: { limits: { max_reader_bytes: 3_000_000 } },
  });
  const { readers } = service.service.store;
  const request = { messages: [{ role: "user", content: "hi" }] };
  const silent: Socket[] = [];
  for (let count = 0; count < 12; count += 1) {
    silent.push(silentClient(service, "POST /v1/chat/completions", JSON.stringify(request)));
    const answer = await service.chat(request);
    assert.equal(answer.status, 200);
    const body = (await answer.json()) as { choices: { message: { content: string } }[] };
    assert.ok(body.choices[0]?.message.content === text, "it is whole");
    assert.ok(readers.usedBytes <= readers.maxBytes, `${readers.usedBytes}`);
  }
  for (const socket of silent) socket.destroy();
});
