import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { H3 } from "h3";
import { systemClock, type Clock } from "../../../src/base/time.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { listen, type Listener } from "../../../src/gateway/listen.ts";

const isDeno = "Deno" in globalThis;
const LONG_MS = 1_000_000;

/** An app whose `/held` answers when it is let go; `/stream` sends a first piece and the rest then. */
function heldApp() {
  const asked = Promise.withResolvers<void>();
  const letGo = Promise.withResolvers<void>();
  const app = new H3({ silent: true });
  app.get("/", () => "here");
  app.get("/held", async () => {
    asked.resolve();
    await letGo.promise;
    return "at last";
  });
  app.get("/stream", () => {
    const encoder = new TextEncoder();
    return new Response(
      new ReadableStream({
        async start(controller) {
          controller.enqueue(encoder.encode("first "));
          asked.resolve();
          await letGo.promise;
          controller.enqueue(encoder.encode("last"));
          controller.close();
        },
      }),
    );
  });
  return { app, asked: asked.promise, letGo: letGo.resolve };
}

function start(app: H3, more: { port?: number; clock?: Clock; host?: string } = {}): Promise<Listener> {
  return listen(app, { host: "127.0.0.1", port: 0, maxBodyBytes: 1000, clock: systemClock, ...more });
}

function dial(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => {});
  return new Promise((resolve) => socket.once("connect", () => resolve(socket)));
}

test("listens on a free port and returns its address", async () => {
  const { app } = heldApp();
  const listener = await start(app);
  assert.match(listener.url, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
  assert.equal(await (await fetch(listener.url)).text(), "here");
  await listener.close(0);
  await assert.rejects(fetch(listener.url));
});

test("a port in use is an error that names the port and the solution", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as AddressInfo;
  await assert.rejects(start(heldApp().app, { port }), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port}: the port is in use`));
    assert.match(error.message, /--port|api_server\.port/);
    return true;
  });
  await new Promise((resolve) => taken.close(resolve));
});

test("an address of another machine is an error that names it", async () => {
  await assert.rejects(start(heldApp().app, { host: "203.0.113.7" }), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /203\.0\.113\.7.*api_server\.host/);
    return true;
  });
});

test("a port is free again at once after close", async () => {
  const first = await start(heldApp().app);
  const port = Number(new URL(first.url).port);
  await (await fetch(first.url)).text();
  await first.close(0);
  const second = await start(heldApp().app, { port });
  assert.equal(await (await fetch(second.url)).text(), "here");
  await second.close(0);
});

for (const path of ["/held", "/stream"]) {
  test(`close waits for the open answer at ${path}, and accepts no new connection`, async () => {
    const { app, asked, letGo } = heldApp();
    const listener = await start(app);
    const answer = fetch(`${listener.url}${path}`).then((response) => response.text());
    await asked;
    let closed = false;
    const closing = listener.close(LONG_MS).then(() => (closed = true));
    await assert.rejects(fetch(listener.url));
    assert.equal(closed, false);
    letGo();
    assert.match(await answer, /last$/);
    await closing;
  });

  test(`an answer at ${path} that takes longer than the grace period is cut`, async () => {
    const { app, asked, letGo } = heldApp();
    const clock = new FakeClock();
    const listener = await start(app, { clock });
    const answer = fetch(`${listener.url}${path}`).then((response) => response.text());
    answer.catch(() => {});
    await asked;
    let closed = false;
    const closing = listener.close(LONG_MS).then(() => (closed = true));
    while (!closed) {
      clock.tick(LONG_MS);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await closing;
    if (!isDeno) return assert.rejects(answer);
    letGo(); // Deno has no way to cut an answer
    await answer;
  });
}

test("idle connections do not delay the close", async () => {
  const { app } = heldApp();
  // Time stands still: only connections that are let go at once let the close end.
  const listener = await start(app, { clock: new FakeClock() });
  const silent = await Promise.all([dial(listener.url), dial(listener.url)]);
  const idle = await dial(listener.url);
  const answered = new Promise((resolve) => idle.once("data", resolve));
  idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await answered;
  const begun = await dial(listener.url);
  begun.write("GET / HTTP/1.1\r\nHost:");
  const ended = [...silent, idle, begun].map(
    (socket) => new Promise((resolve) => socket.once("close", resolve).resume()),
  );
  await listener.close(LONG_MS);
  await Promise.all(ended);
});

test("closing twice is the same as closing once", async () => {
  const listener = await start(heldApp().app);
  await Promise.all([listener.close(0), listener.close(0)]);
  await listener.close(0);
  await assert.rejects(fetch(listener.url));
});

test("oversize request headers are refused by the listener", async () => {
  const listener = await start(heldApp().app);
  const socket = await dial(listener.url);
  let text = "";
  socket.setEncoding("latin1").on("data", (data: string) => (text += data));
  socket.write(`GET / HTTP/1.1\r\nHost: x\r\n${`X-Pad: ${"y".repeat(1000)}\r\n`.repeat(1000)}\r\n`);
  await new Promise((resolve) => socket.once("close", resolve));
  assert.doesNotMatch(text, /here/);
  assert.equal(await (await fetch(listener.url)).text(), "here");
  await listener.close(0);
});
