import assert from "node:assert/strict";
import { test } from "node:test";
import { connectRaw, frame, OPCODE, upgrade } from "../../harness/rpc-raw.ts";
import { connectSocket } from "../../harness/rpc.ts";
import { KEY, startTestService } from "../../harness/service.ts";

const MEGABYTE = 1_048_576;

test("an unauthorized client is refused before its socket is accepted", async () => {
  await using service = await startTestService();
  const good = `/api/ws?token=${KEY}`;
  const cases: readonly (readonly [string, Record<string, string>, number])[] = [
    ["/api/ws", {}, 401],
    ["/api/ws?token=wrong", {}, 401],
    ["/api/ws?ticket=wrong", {}, 401],
    ["/api/ws", { authorization: "Bearer wrong" }, 401],
    [good, { host: "evil.example" }, 403],
    [good, { origin: "https://evil.example" }, 403],
    [good, { origin: "null" }, 403],
    [good, {}, 101],
    ["/v1/tui/ws", { authorization: `Bearer ${KEY}` }, 101],
    [good, { origin: service.url }, 101],
  ];
  for (const [path, headers, expected] of cases) {
    const { socket, status } = await upgrade(service, path, headers);
    assert.equal(status, expected, `${path} ${JSON.stringify(headers)}`);
    socket.destroy();
  }
  assert.ok(service.logLines.some((line) => line.includes("a socket was refused")));
  assert.ok(!service.logLines.some((line) => line.includes(KEY)), "no key is logged");
});

test("a ticket opens one socket, with the identity of its key", async () => {
  const keys = [{ key: KEY, name: "ann", scopes: ["read"] }];
  await using service = await startTestService({ keys });
  const answer = await service.request("/api/auth/ws-ticket", { method: "POST" });
  assert.equal(answer.status, 201);
  const { ticket, expires_in: seconds } = await answer.json();
  assert.equal(seconds, 30);
  await using host = await connectSocket(service, `/api/ws?ticket=${ticket}`);
  const error = await host.error("session.create", {}, -32003);
  assert.match(error.message, /"ann" has no scope "chat"/);
  const again = await upgrade(service, `/api/ws?ticket=${ticket}`);
  assert.equal(again.status, 401);
  again.socket.destroy();
});

test("a client behind a proxy does not count as local", async () => {
  await using service = await startTestService();
  const path = `/api/ws?token=${KEY}`;
  await using near = await connectRaw(service, path);
  assert.equal((await near.result("cli.exec", { argv: ["chat"] })).blocked, true);
  for (const header of ["x-forwarded-for", "forwarded", "x-real-ip", "via"]) {
    await using far = await connectRaw(service, path, { [header]: "192.0.2.1" });
    const error = await far.error("cli.exec", { argv: ["chat"] }, 4005);
    assert.equal(error.data.reason, "blocked", header);
  }
});

test("a frame above the limit closes its socket with 1009, and no other", async () => {
  await using service = await startTestService();
  await using neighbour = await connectSocket(service);
  await using host = await connectSocket(service);
  host.wire.send(JSON.stringify({ id: 1, method: "ping", params: { x: "x".repeat(16 * MEGABYTE) } }));
  assert.equal(await host.wire.closed, 1009);
  assert.deepEqual(await neighbour.result("ping"), { pong: true });
});

test("binary messages are read as text", async () => {
  await using service = await startTestService();
  await using host = await connectSocket(service);
  host.validator.fromHost({ id: "b", method: "ping" });
  host.wire.send(new TextEncoder().encode('{"id":"b","method":"ping"}'));
  assert.deepEqual((await host.frame(({ id }) => id === "b")).result, { pong: true });
});

test("a client that does not read is cut, and others are not affected", async () => {
  await using service = await startTestService();
  await using neighbour = await connectSocket(service);
  const { socket } = await upgrade(service, `/api/ws?token=${KEY}`);
  socket.pause();
  const ended = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const discover = frame(OPCODE.text, new TextEncoder().encode('{"id":1,"method":"rpc.discover"}'));
  const isHeld = () => [...service.service.hub].length > 1;
  while (isHeld()) {
    socket.write(discover);
    await neighbour.result("ping");
  }
  assert.ok(service.logLines.some((line) => line.includes("does not read")));
  assert.deepEqual(await neighbour.result("ping"), { pong: true });
  socket.resume();
  socket.destroy();
  await ended;
});

test("a gateway bug closes the socket with 1011, and no other", async () => {
  await using service = await startTestService();
  await using neighbour = await connectSocket(service);
  await using host = await connectSocket(service);
  const peer = [...service.service.hub].find(({ id }) => id === host.frames[0].params.payload.connection_id);
  Object.assign(peer!, {
    receive: () => {
      throw new Error("a fault");
    },
  });
  host.wire.send("{}");
  assert.equal(await host.wire.closed, 1011);
  assert.ok(
    service.logLines.some((line) => line.includes("a socket hook failed") && line.includes("a fault")),
  );
  assert.equal(service.service.hub.size, 1, "nothing of it is left");
  assert.deepEqual(await neighbour.result("ping"), { pong: true });
});

test("shutdown closes sockets with 1001", async () => {
  const service = await startTestService();
  const host = await connectSocket(service);
  await service[Symbol.asyncDispose]();
  assert.equal(await host.wire.closed, 1001);
});

test("a connection that ends leaves nothing behind", async () => {
  await using service = await startTestService();
  const host = await connectSocket(service);
  assert.equal(service.service.hub.size, 1);
  const [peer] = service.service.hub;
  const gone = new Promise((resolve) => peer!.signal.addEventListener("abort", resolve));
  host.wire.close();
  await gone;
  assert.equal(service.service.hub.size, 0);
});
