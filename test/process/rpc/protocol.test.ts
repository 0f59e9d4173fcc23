import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connectSocket, startRpcProcess, type Json, type RpcHost } from "../../harness/rpc.ts";
import { startTestService } from "../../harness/service.ts";

type Run = (host: RpcHost) => Promise<void>;

/** The same over a real socket and a real process. */
function onBoth(title: string, run: Run): void {
  test(`${title}, on a socket`, async () => {
    await using service = await startTestService();
    await using host = await connectSocket(service);
    await run(host);
    assert.deepEqual(await host.result("ping"), { pong: true }, "the connection stays open");
  });
  test(`${title}, on stdio`, async () => {
    const home = await mkdtemp(join(tmpdir(), "agentd-rpc-"));
    try {
      await using host = await startRpcProcess(home);
      await run(host);
      assert.deepEqual(await host.result("ping"), { pong: true }, "the connection stays open");
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });
}

/** Sends text as it is and resolves to the next frame. */
async function raw(host: RpcHost, text: string | Uint8Array): Promise<Json> {
  const at = host.frames.length;
  host.wire.send(text);
  return host.frame(() => true, at);
}

function assertRefused(frame: Json, code: number, id: Json = null): void {
  assert.equal(frame.error?.code, code, JSON.stringify(frame));
  assert.equal(frame.id, id);
}

onBoth("the first frame is gateway.ready, and nothing comes before it", async (host) => {
  const [first] = host.frames;
  assert.equal(first.params.type, "gateway.ready");
  const { protocol, limits, replay_epoch: epoch } = first.params.payload;
  assert.deepEqual(protocol, { name: "agent-tui-gateway", version: 1, min_version: 1 });
  assert.equal(limits.max_inflight_requests, 256);
  assert.ok(epoch.length > 0);
});

onBoth("the examples of the specification of JSON-RPC 2.0 are answered as it says", async (host) => {
  assertRefused(await raw(host, '{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]'), -32700);
  assertRefused(await raw(host, '{"jsonrpc": "2.0", "method": 1, "params": "bar"}'), -32600);
  assertRefused(await raw(host, '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}'), -32601, "1");
  assertRefused(
    await raw(
      host,
      '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"]',
    ),
    -32700,
  );
  assertRefused(await raw(host, "[]"), -32600);
  const [one, ...more] = await raw(host, "[1]");
  assertRefused(one, -32600);
  assert.deepEqual(more, []);
  const three = await raw(host, "[1,2,3]");
  assert.equal(three.length, 3);
  for (const each of three) assertRefused(each, -32600);
});

onBoth("a batch is answered as one, its notifications not at all", async (host) => {
  host.validator.fromHost([
    { id: "1", method: "ping" },
    { id: 2, method: "pet.cells" },
  ]);
  const answers = await raw(
    host,
    '[{"jsonrpc":"2.0","id":"1","method":"ping"},{"jsonrpc":"2.0","method":"ping"},{"foo":"boo"},{"jsonrpc":"2.0","id":2,"method":"pet.cells"}]',
  );
  assert.deepEqual(
    answers.map((each: Json) => [each.id, each.result ?? each.error.code]),
    [
      ["1", { pong: true }],
      [null, -32600],
      [2, { enabled: false }],
    ],
  );
  const at = host.frames.length;
  host.wire.send('[{"method":"ping"},{"method":"nope"}]');
  host.wire.send('{"method":"ping"}');
  host.wire.send('{"method":"nope"}');
  await host.result("ping");
  assert.equal(host.frames.length, at + 1, "nothing was answered but the last");
});

onBoth("a batch has at most 32 members", async (host) => {
  const members = Array.from({ length: 33 }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }));
  assertRefused(await raw(host, JSON.stringify(members)), -32600);
  host.validator.fromHost(members);
  assert.equal((await raw(host, JSON.stringify(members.slice(0, 32)))).length, 32);
});

onBoth("what lacks jsonrpc is taken, what names another version is not", async (host) => {
  host.validator.fromHost({ id: 7, method: "ping" });
  assert.deepEqual(await raw(host, '{"id":7,"method":"ping"}'), {
    jsonrpc: "2.0",
    id: 7,
    result: { pong: true },
  });
  assertRefused(await raw(host, '{"jsonrpc":"1.0","id":7,"method":"ping"}'), -32600, 7);
  for (const id of ["{}", "[1]", "true"]) {
    assertRefused(await raw(host, `{"jsonrpc":"2.0","id":${id},"method":"ping"}`), -32600);
  }
  for (const text of ["null", "1", '"ping"', "{}", '{"id":1}', '{"id":1,"method":""}']) {
    const { error } = await raw(host, text);
    assert.equal(error.code, -32600, text);
  }
});

onBoth("wrong parameters name their path, unknown ones are ignored", async (host) => {
  const { data } = await host.error("session.create", { cols: "wide" }, -32602);
  assert.equal(data.reason, "invalid_params");
  assert.deepEqual(
    data.issues.map((issue: Json) => issue.path),
    ["cols"],
  );
  const missing = await host.error("session.status", {}, -32602);
  assert.deepEqual(
    missing.data.issues.map((issue: Json) => issue.path),
    ["session_id"],
  );
  await host.error("ping", [1], -32602);
  await host.error("ping", "text", -32602);
  assert.deepEqual(await host.result("ping", { whatever: { deep: [1] }, __proto__: 1 }), { pong: true });
  assert.deepEqual(await host.result("ping", null), { pong: true });
});

onBoth("broken UTF-8 is answered and not taken", async (host) => {
  const text = new TextEncoder().encode('{"id":1,"method":"ping?"}');
  text[text.length - 3] = 0xff;
  assertRefused(await raw(host, text), -32700);
});

onBoth("U+2028, blank frames and carriage returns do no harm", async (host) => {
  host.wire.send("");
  host.wire.send("  \r");
  host.validator.fromHost({ id: "a\u2028b\u2029", method: "ping" });
  const answer = await raw(host, `{"id":"a\u2028b\u2029","method":"ping"}\r`);
  assert.equal(answer.id, "a\u2028b\u2029");
});

onBoth("a line of 1 MB is read whole", async (host) => {
  assert.deepEqual(await host.result("ping", { padding: "x".repeat(1_048_576) }), { pong: true });
});

onBoth("1,000 requests at once are all answered, in their order", async (host) => {
  const at = host.frames.length;
  const answers = Array.from({ length: 1000 }, () => host.call("ping"));
  const ids = (await Promise.all(answers)).map(({ id }) => id);
  assert.deepEqual(
    host.frames.slice(at).map(({ id }) => id),
    ids,
  );
});

onBoth("an answer that nobody asked for is dropped", async (host) => {
  host.send({ jsonrpc: "2.0", id: "ask_nothing", result: { choice: "once" } });
  host.send({ jsonrpc: "2.0", id: 9, error: { code: -32601, message: "no" } });
});

onBoth("rpc.discover tells both documents", async (host) => {
  const document = await host.result("rpc.discover");
  const names = document.methods.map(({ name }: Json) => name);
  for (const name of ["prompt.submit", "rpc.discover", "image.attach"]) assert.ok(names.includes(name));
  assert.deepEqual(
    document["x-client-methods"].map(({ name }: Json) => name),
    ["event", "approval", "clarify", "sudo", "secret"],
  );
  assert.ok(document["x-event-types"]["message.delta"].$ref);
});

onBoth("client.capabilities agrees on a version or says which there are", async (host) => {
  const { data } = await host.error("client.capabilities", { protocol_version: 2 }, 4026);
  assert.deepEqual(data.supported, { min_version: 1, version: 1 });
  const agreed = await host.result("client.capabilities", { protocol_version: 1, server_requests: true });
  assert.deepEqual(agreed, {
    protocol: { version: 1 },
    server_requests: ["approval", "clarify", "sudo", "secret"],
    declines_not_shown: false,
  });
});

onBoth("hosts find what they look for at the start", async (host) => {
  assert.equal((await host.result("setup.status")).provider_configured, true);
  assert.deepEqual(await host.result("pet.cells", { state: "idle", graphics: "none" }), { enabled: false });
  assert.deepEqual(await host.result("gateway.ping"), { pong: true });
});
