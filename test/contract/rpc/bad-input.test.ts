/** What hosts may send wrong, over both transports: each its error from the table; the connection and its neighbours live. */
import assert from "node:assert/strict";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

const MEGABYTE = 1_048_576;

/** Sends text as it is and resolves to the next frame. */
async function raw(host: RpcHost, text: string | Uint8Array): Promise<Json> {
  const at = host.frames.length;
  try {
    host.validator.fromHost(JSON.parse(String(text)));
  } catch {
    // It is meant to be broken.
  }
  host.wire.send(text);
  return host.frame(() => true, at);
}

async function refused(
  host: RpcHost,
  text: string | Uint8Array,
  code: number,
  id: Json = null,
): Promise<Json> {
  const answer = await raw(host, text);
  assert.equal(answer.error?.code, code, JSON.stringify(answer));
  assert.equal(answer.id, id);
  return answer.error;
}

/** What was sent since is answered with nothing but this. */
async function assertAlive(...hosts: readonly RpcHost[]): Promise<void> {
  for (const host of hosts) {
    const at = host.frames.length;
    assert.deepEqual(await host.result("ping"), { pong: true });
    assert.equal(host.frames.length, at + 1);
  }
}

rpcScenario(
  ["error -32700", "error -32600", "error -32601", "error -32602"],
  "the examples of the JSON-RPC 2.0 specification are answered as specified",
  async (host, { connect }) => {
    const neighbour = await connect();
    // Its methods do not exist here, and parameters travel by name.
    await refused(host, '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}', -32601, 1);
    await refused(
      host,
      '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
      -32601,
      3,
    );
    await refused(host, '{"jsonrpc": "2.0", "method": "ping", "params": [42, 23], "id": 2}', -32602, 2);
    host.wire.send('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}');
    host.wire.send('{"jsonrpc": "2.0", "method": "foobar"}');
    await assertAlive(host);
    await refused(host, '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', -32601, "1");
    await refused(host, '{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', -32700);
    await refused(host, '{"jsonrpc": "2.0", "method": 1, "params": "bar"}', -32600);
    await refused(
      host,
      '[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method" ]',
      -32700,
    );
    await refused(host, "[]", -32600);
    const codes = (answers: Json) => answers.map((each: Json) => [each.id, each.error?.code ?? each.result]);
    assert.deepEqual(codes(await raw(host, "[1]")), [[null, -32600]]);
    const three = [
      [null, -32600],
      [null, -32600],
      [null, -32600],
    ];
    assert.deepEqual(codes(await raw(host, "[1,2,3]")), three);
    const mixed = [
      { jsonrpc: "2.0", method: "sum", params: [1, 2, 4], id: "1" },
      { jsonrpc: "2.0", method: "notify_hello", params: [7] },
      { jsonrpc: "2.0", method: "ping", id: "2" },
      { foo: "boo" },
      { jsonrpc: "2.0", method: "foo.get", params: { name: "myself" }, id: "5" },
      { jsonrpc: "2.0", method: "gateway.ping", id: "9" },
    ];
    assert.deepEqual(codes(await raw(host, JSON.stringify(mixed))), [
      ["1", -32601],
      ["2", { pong: true }],
      [null, -32600],
      ["5", -32601],
      ["9", { pong: true }],
    ]);
    host.wire.send(
      '[{"jsonrpc": "2.0", "method": "notify_sum"}, {"jsonrpc": "2.0", "method": "notify_hello"}]',
    );
    await assertAlive(host, neighbour);
  },
);

rpcScenario(
  "error -32600",
  "a batch is not empty, has at most 32 members and no nested batch",
  async (host) => {
    const members = Array.from({ length: 33 }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }));
    const { message } = await refused(host, JSON.stringify(members), -32600);
    assert.match(message, /at most 32 members; this one has 33/);
    assert.equal((await raw(host, JSON.stringify(members.slice(1)))).length, 32);
    await refused(host, "[]", -32600);
    const [inner, ...more] = await raw(host, '[[{"jsonrpc":"2.0","id":1,"method":"ping"}]]');
    assert.equal(inner.error.code, -32600);
    assert.deepEqual(more, []);
    await assertAlive(host);
  },
);

rpcScenario(
  "error -32700",
  "invalid UTF-8 is answered, and valid replacement characters are accepted",
  async (host) => {
    const bytes = new TextEncoder().encode('{"id":1,"method":"ping???"}');
    for (const broken of [[0xff], [0xc3, 0x28], [0xf0, 0x9f, 0x98], [0xed, 0xa0, 0x80]]) {
      bytes.set(broken, bytes.length - 5);
      const { message } = await refused(host, bytes, -32700);
      assert.match(message, /not UTF-8/);
    }
    await refused(host, new Uint8Array([0xef, 0xbb]), -32700);
    const odd = "\uFFFD \u2028\u2029 \u0085 \u{1F600} \uFEFF";
    assert.equal((await raw(host, `{"id":${JSON.stringify(odd)},"method":"ping"}`)).id, odd);
    await assertAlive(host);
  },
);

rpcScenario("ping", "blank frames, carriage returns and 1 MB frames do no harm", async (host) => {
  for (const blank of ["", " ", "\t \r"]) host.wire.send(blank);
  assert.equal((await raw(host, ' {"id":"a\u2028b","method":"ping"}\r')).id, "a\u2028b");
  assert.deepEqual(await host.result("ping", { padding: "\u2028".repeat(MEGABYTE / 3) }), { pong: true });
  // What did not fit is searched for only in what is small.
  const { data } = await host.error("command.resolve", { name: 5, padding: "x".repeat(MEGABYTE) }, -32602);
  assert.match(data.issues[0].message, /no details are given above 64 kB/);
  await refused(host, "[".repeat(MEGABYTE), -32700);
  await assertAlive(host);
});

rpcScenario("error -32602", "wrong types name their path, unknown parameters are ignored", async (host) => {
  const id = await openSession(host);
  const pathsOf = async (method: string, params: Json) => {
    const { data, message } = await host.error(method, params, -32602);
    assert.equal(data.reason, "invalid_params");
    assert.match(message, /^invalid params: /);
    return data.issues.map(({ path }: Json) => path);
  };
  assert.deepEqual(await pathsOf("session.create", { cols: "wide" }), ["cols"]);
  assert.deepEqual(await pathsOf("session.status", {}), ["session_id"]);
  assert.deepEqual(await pathsOf("session.status", { session_id: [id] }), ["session_id"]);
  const messages = [
    { role: "user", content: "fine" },
    { role: 1, content: "not" },
  ];
  const [path] = await pathsOf("session.create", { messages });
  assert.equal(path, "messages[1].role");
  assert.deepEqual(
    await pathsOf("session.activate", { session_id: id, cursor: { epoch: 1, last_seen: 0 } }),
    ["cursor.epoch"],
  );
  assert.deepEqual(await pathsOf("ping", [1]), [""]);
  assert.deepEqual(await pathsOf("ping", "text"), [""]);
  const strange = JSON.parse('{"__proto__":{"pong":false},"constructor":1,"deep":[[[]]]}');
  assert.deepEqual(await host.result("ping", strange), { pong: true });
  assert.deepEqual(await host.result("ping", null), { pong: true });
  for (const method of ["__proto__", "constructor", "toString", "x".repeat(10_000)]) {
    const { message } = await host.error(method, {}, -32601);
    assert.ok(message.length < 200, "the name is cut");
  }
  await assertAlive(host);
});

rpcScenario(
  ["session.usage 4001", "prompt.submit 4001", "session.status 4001"],
  "unknown, closed and only saved sessions have different errors",
  async (host, { service, connect }) => {
    const unknown = await host.error("session.usage", { session_id: "20260101_000000_abcdef" }, 4001);
    assert.equal(unknown.data.reason, "session_not_found");
    const saved = await openSession(host);
    await takeTurn(host, saved, "hello");
    const fresh = await openSession(host);
    for (const id of [saved, fresh])
      assert.deepEqual(await host.result("session.close", { session_id: id }), { closed: true });
    for (const method of ["session.usage", "session.status", "prompt.submit"]) {
      const params = { session_id: saved, ...(method === "prompt.submit" ? { text: "more" } : {}) };
      const { data } = await host.error(method, params, 4001);
      assert.deepEqual([data.reason, data.stored], ["not_live", true], method);
    }
    const gone = await host.error("session.usage", { session_id: fresh }, 4001);
    assert.equal(gone.data.reason, "session_not_found", "it was never saved");
    const other = await connect({ owner: "somebody else", scopes: ["admin"] });
    const { data } = await other.error("session.usage", { session_id: saved }, 4001);
    assert.equal(data.reason, "session_not_found", "the error does not reveal another owner's session");
    await host.result("session.resume", { session_id: saved });
    await host.result("session.usage", { session_id: saved });
    assert.ok(service.service.hub.size >= 2);
  },
);

rpcScenario(
  ["clarify.respond 4009", "approval.respond 4009", "request.answer 4009"],
  {
    title: "an answer to a closed or unknown question is refused",
    script: ({ step }) =>
      step === 0 ? { calls: [{ tool: "probe", input: { command: "rm -rf /x" } }] } : { text: "done" },
  },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "go" });
    const { payload } = await host.event("approval.request");
    const { request_id: requestId } = payload;
    const wrongKind = await host.error("clarify.respond", { request_id: requestId, answer: "x" }, 4009);
    assert.equal(wrongKind.data.reason, "no_pending_request");
    const approve = { session_id: id, request_id: requestId, choice: "deny" };
    assert.deepEqual(await host.result("approval.respond", approve), { resolved: 1 });
    await host.error("approval.respond", approve, 4009);
    await host.error("request.answer", { id: requestId, result: { choice: "once" } }, 4009);
    await host.error("request.answer", { id: "ask_never", result: { choice: "once" } }, 4009);
    await host.event("message.complete");
    // As an answer without a pending request it is dropped.
    host.send({ jsonrpc: "2.0", id: requestId, result: { choice: "always" } });
    host.send({ jsonrpc: "2.0", id: 9, error: { code: -32601, message: "no" } });
    host.send({ jsonrpc: "2.0", id: null, result: {} });
    assert.equal((await host.call("ping")).result.pong, true);
    const answered = host.events(id).filter(({ type }) => type === "request.cancel");
    assert.ok(answered.length <= 1);
  },
);

rpcScenario(
  "session.usage",
  "of 1,000 concurrent requests, each is answered or gets overloaded",
  async (host, { connect }) => {
    const neighbour = await connect();
    const id = await openSession(host);
    const calls = Array.from({ length: 1000 }, () => host.call("session.usage", { session_id: id }));
    assert.deepEqual(await neighbour.result("ping"), { pong: true });
    let answered = 0;
    for (const { result, error } of await Promise.all(calls)) {
      if (result) answered += 1;
      else assert.deepEqual([error.code, error.data.retryable], [-32001, true]);
    }
    assert.ok(answered >= 256, `only ${answered} were answered`);
    await host.result("session.usage", { session_id: id });
    await assertAlive(host, neighbour);
  },
);
