/** Who is let in to the WebSocket, frames that break its rules, and frames in pieces. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { currentRuntime } from "../../../src/base/system/machine.ts";
import { bodyOf, connectRaw, frame, OPCODE, upgrade } from "../../harness/rpc-raw.ts";
import { connectSocket } from "../../harness/rpc.ts";
import { oncePerFile } from "../../harness/guard.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const GOOD = `/api/ws?token=${KEY}`;
const ping = new TextEncoder().encode('{"jsonrpc":"2.0","id":"p","method":"ping"}');

let service: TestService;
const openService = oncePerFile(() => startTestService());
before(async () => void (service = await openService()));

async function assertRefused(
  path: string,
  headers: Record<string, string>,
  [status, code]: readonly [number, string],
): Promise<void> {
  const answer = await upgrade(service, path, headers);
  assert.equal(answer.status, status, `${path} ${JSON.stringify(headers)}`);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
  const { error } = JSON.parse(await bodyOf(answer));
  assert.equal(error.code, code, `${path} ${JSON.stringify(headers)}`);
  assert.ok(error.message.length > 20, "it says what to do next");
}

async function ticket(from: TestService = service): Promise<string> {
  const answer = await from.request("/api/auth/ws-ticket", { method: "POST" });
  return (await answer.json()).ticket;
}

test("a request without a key, or with a wrong one, is refused with 401 and JSON", async () => {
  const [missing, invalid] = [
    [401, "missing_api_key"],
    [401, "invalid_api_key"],
  ] as const;
  await assertRefused("/api/ws", {}, missing);
  await assertRefused("/api/ws?token=", {}, missing);
  await assertRefused("/v1/tui/ws", { authorization: "Basic eDp5" }, missing);
  await assertRefused("/api/ws?token=wrong", {}, invalid);
  await assertRefused("/api/ws", { authorization: "Bearer wrong" }, invalid);
  await assertRefused(`/api/ws?token=${KEY}%00`, {}, invalid);
  assert.ok(service.logLines.length > 0);
  assert.ok(!service.logLines.some((line) => line.includes(KEY)), "no key is logged");
});

test("a ticket that is wrong, used or older than 30 s is refused", async () => {
  const invalid = [401, "invalid_api_key"] as const;
  await assertRefused("/api/ws?ticket=wrong", {}, invalid);
  await assertRefused(`/api/ws?ticket=wrong&token=${KEY}`, {}, invalid);
  const once = await ticket();
  await using host = await connectSocket(service, `/api/ws?ticket=${once}`);
  assert.deepEqual(await host.result("ping"), { pong: true });
  await assertRefused(`/api/ws?ticket=${once}`, {}, invalid);
});

test("a ticket is refused after 30 s", async () => {
  const clock = new FakeClock();
  await using late = await startTestService({ clock });
  const old = await ticket(late);
  clock.tick(30_000);
  const answer = await upgrade(late, `/api/ws?ticket=${old}`);
  assert.equal(answer.status, 401);
  assert.equal(JSON.parse(await bodyOf(answer)).error.code, "invalid_api_key");
});

test("foreign hosts and foreign origins are refused with 403, whatever the key", async () => {
  for (const host of ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "a b"]) {
    const answer = await upgrade(service, GOOD, { host });
    assert.ok([400, 403].includes(answer.status), `${host}: ${answer.status}`);
    answer.socket.destroy();
  }
  await assertRefused(GOOD, { host: "evil.example" }, [403, "host_not_allowed"]);
  for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1", "file://"]) {
    await assertRefused(GOOD, { origin }, [403, "origin_not_allowed"]);
  }
  for (const headers of [{ origin: service.url }, {}] as Record<string, string>[]) {
    const { socket, status } = await upgrade(service, GOOD, headers);
    assert.equal(status, 101);
    socket.destroy();
  }
});

test("an attempt of a foreign page uses up the ticket", async () => {
  const stolen = await ticket();
  const target = `/api/ws?ticket=${stolen}`;
  await assertRefused(target, { origin: "https://evil.example" }, [403, "origin_not_allowed"]);
  await assertRefused(target, {}, [401, "invalid_api_key"]);
});

test("sockets exist at exactly two paths", async () => {
  for (const path of ["/", "/api/wsx", "/v1/runs", `/api/ws/../x?token=${KEY}`]) {
    await assertRefused(path, {}, [404, "not_found"]);
  }
});

test("an upgrade to another protocol is ignored", async () => {
  const answer = await upgrade(service, "/health", { upgrade: "h2c", connection: "Upgrade" });
  assert.equal(answer.status, 200);
  answer.socket.destroy();
});

test("a connection reset during the refusal does no harm", async () => {
  for (let n = 0; n < 20; n++) {
    const answer = await upgrade(service, "/api/ws?token=wrong");
    answer.socket.resetAndDestroy();
  }
  await using host = await connectSocket(service);
  assert.deepEqual(await host.result("ping"), { pong: true });
});

test("a message in many frames, and a frame in many packets, is one message", async () => {
  await using host = await connectRaw(service, GOOD);
  await host.event("gateway.ready");
  const answered = async () => {
    host.validator.fromHost({ id: "p", method: "ping" });
    const at = host.frames.length;
    return (await host.frame(({ id }) => id === "p", at)).result;
  };
  const pieces = [ping.subarray(0, 5), ping.subarray(5, 6), new Uint8Array(), ping.subarray(6)];
  let answer = answered();
  pieces.forEach((piece, at) =>
    host.write(at === 0 ? OPCODE.text : OPCODE.more, piece, { isLast: at === pieces.length - 1 }),
  );
  assert.deepEqual(await answer, { pong: true });
  answer = answered();
  for (const byte of frame(OPCODE.binary, ping)) {
    host.writeBytes(Uint8Array.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(await answer, { pong: true });
});

test("a text message that is not UTF-8 is answered or closes its own socket only", async () => {
  await using neighbour = await connectSocket(service);
  await using host = await connectRaw(service, GOOD);
  await host.event("gateway.ready");
  const at = host.frames.length;
  host.write(OPCODE.text, Uint8Array.of(0x22, 0xff, 0x22));
  // Deno checks the text itself and cuts the connection, as the protocol lets it.
  if (currentRuntime().name === "deno") await host.wire.closed;
  else {
    const { error } = await host.frame(() => true, at);
    assert.equal(error.code, -32700);
    host.validator.fromHost({ id: "\uFFFD", method: "ping" });
    host.write(OPCODE.text, '{"id":"\uFFFD","method":"ping"}');
    assert.deepEqual((await host.frame(({ id }) => id === "\uFFFD")).result, { pong: true });
  }
  assert.deepEqual(await neighbour.result("ping"), { pong: true });
});

test("frames that break the WebSocket rules affect no other socket", async () => {
  await using neighbour = await connectSocket(service);
  const unmasked = Uint8Array.of(0x81, 0x02, 0x7b, 0x7d);
  for (const bytes of [
    unmasked,
    frame(3, ping),
    frame(OPCODE.more, ping),
    Uint8Array.of(0xf1, 0x80, 0, 0, 0, 0),
  ]) {
    const host = await connectRaw(service, GOOD);
    await host.event("gateway.ready");
    const at = host.frames.length;
    host.writeBytes(bytes);
    // Deno takes frames that are not masked, and answers what is in them.
    await Promise.race([host.wire.closed, host.frame(() => true, at).catch(() => {})]);
    host.wire.close();
    assert.deepEqual(await neighbour.result("ping"), { pong: true });
  }
});

test("a frame above the limit closes its socket with 1009, one at the limit is read", async () => {
  await using neighbour = await connectSocket(service);
  await using host = await connectSocket(service);
  const limit: number = host.frames[0].params.payload.limits.max_frame_bytes;
  const envelope = '{"jsonrpc":"2.0","id":"big","method":"ping","params":{"x":""}}'.length;
  const big = { jsonrpc: "2.0", id: "big", method: "ping", params: { x: "x".repeat(limit - envelope) } };
  host.send(big);
  assert.deepEqual((await host.frame(({ id }) => id === "big")).result, { pong: true });
  big.params.x += "x";
  host.send(big);
  assert.equal(await host.wire.closed, 1009);
  assert.deepEqual(await neighbour.result("ping"), { pong: true });
});
