/** Bodies as hostile clients send them, over plain sockets. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { assertHealthy } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const small = { limits: { max_body_bytes: 2000 } };
const good = JSON.stringify({ messages: [{ role: "user", content: "hi" }] });

interface Wire {
  readonly socket: Socket;
  send(text: string): void;
  /** What has arrived once `pattern` is in it, or once the other side closed. */
  until(pattern: RegExp): Promise<string>;
}

async function dial(service: TestService): Promise<Wire> {
  const socket = connect(Number(new URL(service.url).port), "127.0.0.1");
  let text = "";
  let wake = () => {};
  let over = false;
  socket.setEncoding("latin1").on("data", (data: string) => {
    text += data;
    wake();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    over = true;
    wake();
  });
  await new Promise((resolve) => socket.once("connect", resolve));
  return {
    socket,
    send: (data) => void socket.write(data),
    until: async (pattern) => {
      while (!pattern.test(text) && !over) await new Promise<void>((resolve) => (wake = resolve));
      return text;
    },
  };
}

const head = (...lines: readonly string[]) =>
  [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: 127.0.0.1",
    `Authorization: Bearer ${KEY}`,
    "Content-Type: application/json",
    ...lines,
    "",
    "",
  ].join("\r\n");
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

test("a body in chunks of one byte is read completely", async () => {
  await using service = await startTestService();
  const wire = await dial(service);
  wire.send(head("Transfer-Encoding: chunked", "Connection: close"));
  for (const letter of good) wire.send(chunk(letter));
  wire.send("0\r\n\r\n");
  assert.match(await wire.until(/"hello"/), /^HTTP\/1\.1 200 [\s\S]*"hello"/);
  wire.socket.destroy();
});

test("a chunked body is refused as soon as it exceeds the limit", async () => {
  await using service = await startTestService({ config: small });
  const wire = await dial(service);
  wire.send(head("Transfer-Encoding: chunked"));
  for (let i = 0; i < 3; i++) wire.send(chunk("x".repeat(1000)));
  // The end is never sent.
  const answer = await wire.until(/body_too_large[\s\S]*\}/);
  assert.match(answer, /^HTTP\/1\.1 413 /);
  wire.socket.destroy();
  await assertHealthy(service);
});

test("a declared length over the limit is refused before any byte of the body arrives", async () => {
  await using service = await startTestService({ config: small });
  const wire = await dial(service);
  wire.send(head("Content-Length: 2001"));
  assert.match(await wire.until(/body_too_large[\s\S]*\}/), /^HTTP\/1\.1 413 /);
  wire.socket.destroy();
  await assertHealthy(service);
});

test("a client that sends a whole oversize body before it reads still gets its answer", async () => {
  await using service = await startTestService({ config: small });
  const body = "x".repeat(4_000_000);
  for (const how of ["declared", "chunked"]) {
    for (let i = 0; i < 5; i++) {
      const wire = await dial(service);
      wire.send(head(how === "declared" ? `Content-Length: ${body.length}` : "Transfer-Encoding: chunked"));
      await new Promise<void>((resolve, reject) => {
        const text = how === "declared" ? body : `${chunk(body)}0\r\n\r\n`;
        wire.socket.write(text, (error) => (error ? reject(error) : resolve()));
      });
      assert.match(await wire.until(/body_too_large/), /^HTTP\/1.1 413 /, how);
      wire.socket.destroy();
    }
  }
  await assertHealthy(service);
});

test("a body of exactly the limit is accepted", async () => {
  await using service = await startTestService({ config: small });
  const body = good.padEnd(2000, " ");
  assert.equal((await service.chat(body)).status, 200);
  assert.equal((await service.chat(`${body} `)).status, 413);
});

test("a chunked body of exactly the limit is accepted, and one byte more is refused", async () => {
  await using service = await startTestService({ config: small });
  const whole = good.padEnd(2000, " ");
  for (const [body, answer] of [
    [whole, /^HTTP\/1\.1 200 [\s\S]*"hello"/],
    [`${whole} `, /^HTTP\/1\.1 413 [\s\S]*body_too_large/],
  ] as const) {
    const wire = await dial(service);
    wire.send(`${head("Transfer-Encoding: chunked", "Connection: close")}${chunk(body)}0\r\n\r\n`);
    assert.match(await wire.until(answer), answer);
    wire.socket.destroy();
  }
});

test("bytes after the declared length are not read as part of the body", async () => {
  await using service = await startTestService();
  const wire = await dial(service);
  wire.send(`${head(`Content-Length: ${good.length}`, "Connection: keep-alive")}${good}GARBAGE\r\n\r\n`);
  const answer = await wire.until(/HTTP\/1\.1 400/);
  assert.match(answer, /HTTP\/1\.1 400 /);
  const kept = await service.service.store.read.selectFrom("runs").select("input").execute();
  assert.doesNotMatch(JSON.stringify(kept), /GARBAGE/);
  wire.socket.destroy();
  await assertHealthy(service);
});

test("a request with a length and chunks (request smuggling) is refused", async () => {
  await using service = await startTestService();
  const wire = await dial(service);
  wire.send(`${head("Content-Length: 5", "Transfer-Encoding: chunked")}0\r\n\r\n`);
  assert.match(await wire.until(/HTTP\/1\.1 \d+/), /^HTTP\/1\.1 400 /);
  wire.socket.destroy();
  await assertHealthy(service);
});

for (const [how, lines] of [
  ["with a declared length", ["Content-Length: 500"]],
  ["in chunks", ["Transfer-Encoding: chunked"]],
] as const) {
  test(`a client that leaves in the middle of a body ${how} does no harm to the service`, async () => {
    await using _ = watchUnhandled();
    await using service = await startTestService();
    const wires = await Promise.all(Array.from({ length: 20 }, () => dial(service)));
    for (const wire of wires) {
      wire.send(head(...lines));
      wire.send(lines[0].startsWith("Transfer") ? chunk('{"messages"') : '{"messages"');
    }
    for (const [index, wire] of wires.entries()) {
      if (index % 2) wire.socket.resetAndDestroy();
      else wire.socket.destroy();
    }
    await assertHealthy(service);
    const runs = await service.service.store.read.selectFrom("runs").select("id").execute();
    assert.deepEqual(runs, []);
    assert.deepEqual(
      service.logLines.filter((line) => /"level":"error"/.test(line)),
      [],
    );
  });
}

test("a body that does not arrive in time is refused", async () => {
  const clock = new FakeClock(Date.now());
  await using service = await startTestService({ clock });
  const wire = await dial(service);
  wire.send(`${head("Content-Length: 500")}{"messages"`);
  const answer = wire.until(/request_timeout[\s\S]*\}/);
  let over = false;
  void answer.then(() => (over = true));
  while (!over) {
    clock.tick(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(await answer, /^HTTP\/1\.1 408 /);
  wire.socket.destroy();
});

test("pipelined requests on one connection are answered in order", async () => {
  await using service = await startTestService({ script: ({ user }) => ({ text: `said ${user}` }) });
  const wire = await dial(service);
  const bodies = ["one", "two", "three"].map((content) =>
    JSON.stringify({ messages: [{ role: "user", content }] }),
  );
  wire.send(bodies.map((body) => head(`Content-Length: ${body.length}`) + body).join(""));
  const answer = await wire.until(/said three/);
  assert.deepEqual(answer.match(/said \w+/g), ["said one", "said two", "said three"]);
  wire.socket.destroy();
});
