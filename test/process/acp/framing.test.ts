import assert from "node:assert/strict";
import { test } from "node:test";
import { createAcpPlace, type AcpPlace, type AcpProcess } from "../../harness/acp.ts";
import { saying } from "../../harness/openai-server.ts";

type Failure = {
  readonly error: {
    readonly code: number;
    readonly message: string;
    readonly data?: { readonly method?: string };
  };
};

async function greeted(place: AcpPlace): Promise<AcpProcess> {
  const agent = place.start();
  agent.send({ id: "hello", method: "initialize", params: { protocolVersion: 1 } });
  await agent.answer("hello");
  return agent;
}

async function failure(agent: AcpProcess, id: unknown): Promise<Failure["error"]> {
  return ((await agent.answer(id)) as unknown as Failure).error;
}

/** Codes of the answers without an id, once `count` are there. */
function nameless(agent: AcpProcess, count: number): Promise<readonly number[]> {
  return agent.until(() => {
    const found = agent.lines.filter((line) => line["id"] === null) as unknown as Failure[];
    return found.length >= count ? found.map(({ error }) => error.code) : undefined;
  });
}

const ODD = '\u2028 \u2029 \ud800 \udfff \0 \u0085 \ufeff \u{1f600} \\u2028 "}\n\r';

test("a request before initialize answers -32600", async () => {
  await using place = await createAcpPlace();
  const agent = place.start();
  agent.send({ id: 1, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  assert.equal((await failure(agent, 1)).code, -32_600);
  agent.send({ id: 2, method: "initialize", params: { protocolVersion: 1 } });
  assert.ok((await agent.answer(2))["result"]);
});

test("an unknown method answers -32601 without a stack on stderr, and an unknown notification is ignored", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  for (const [at, method] of [
    "ping",
    "session/nonsense",
    "_vendor/unknown",
    "__proto__",
    "initialized",
    "",
  ].entries()) {
    agent.send({ method, params: { of: "a notification" } });
    agent.send({ id: at, method, params: {} });
    const error = await failure(agent, at);
    assert.equal(error.code, -32_601, method);
    assert.equal(error.data?.method, method);
  }
  assert.equal(agent.lines.length, 7);
  assert.doesNotMatch(agent.stderr, /\n\s+at |not found/i);
});

test("an invalid message answers -32600 or -32700 with id null, and the connection stays open", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  const wrong = [
    ["{}", -32_600],
    ['{"jsonrpc":"2.0"}', -32_600],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}', -32_600],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32_600],
    ['{"jsonrpc":"2.0","id":1,"method":7}', -32_600],
    ['[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32_600],
    ["[]", -32_600],
    ["null", -32_600],
    ['"text"', -32_600],
    ["7", -32_600],
    ["{", -32_700],
    ["nonsense", -32_700],
    ['{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', -32_700],
    ['{"a":"\0"}', -32_700],
  ] as const;
  for (const [text] of wrong) agent.write(`${text}\n`);
  agent.write(Uint8Array.of(0x22, 0xff, 0xfe, 0x22, 10));
  const codes = await nameless(agent, wrong.length + 1);
  assert.deepEqual(codes, [...wrong.map(([, code]) => code), -32_700]);
  // Answers that nobody waits for, and of no shape at all: nothing to answer.
  agent.write('{"jsonrpc":"2.0","id":77,"result":{}}\n{"id":78,"error":7}\n{"result":1}\n');
  agent.send({ id: 1, method: "ping" });
  assert.equal((await failure(agent, 1)).code, -32_601);
  assert.equal(agent.lines.length, wrong.length + 3);
});

test("malformed notifications are ignored, and the connection stays open", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const odd = ['{"toString":1,"valueOf":1}', '{"__proto__":null}', deep, "null", "7", "[]"];
  for (const method of ["session/cancel", "$/cancel_request", "_vendor/unknown"]) {
    for (const value of odd) {
      agent.write(`{"jsonrpc":"2.0","method":"${method}","params":${value}}\n`);
      agent.write(
        `{"jsonrpc":"2.0","method":"${method}","params":{"sessionId":${value},"requestId":${value}}}\n`,
      );
    }
    agent.write(`{"jsonrpc":"2.0","method":"${method}"}\n`);
  }
  agent.send({ id: 1, method: "session/list", params: {} });
  assert.deepEqual((await agent.answer(1))["result"], { sessions: [] });
  assert.equal(agent.lines.length, 2);
});

test("line separators, lone surrogates and NUL survive framing in both directions", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  let bytes = Buffer.alloc(0);
  agent.child.stdout?.on("data", (chunk: Buffer) => (bytes = Buffer.concat([bytes, chunk])));
  // The name of a method that is not known comes back as it was understood.
  agent.send({ id: ODD, method: ODD });
  assert.equal((await failure(agent, ODD)).data?.method, ODD);
  assert.equal(bytes.indexOf("\u2028"), -1);
  assert.equal(bytes.indexOf("\u2029"), -1);
  assert.ok(bytes.includes(String.raw`\u2028`));
});

test("prompts and answers with line separators and NUL reach the model and the client unchanged", async () => {
  const text = "line\u2028paragraph\u2029nul\0 and \u{1f600}";
  await using place = await createAcpPlace({ replies: [saying(text), saying("whole")] });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, text);
  assert.ok(JSON.stringify((await place.models?.requested(1))?.body.messages).includes(JSON.stringify(text)));
  assert.equal(editor.text(), text);
  assert.equal((await editor.prompt(sessionId, "half \ud83d of it")).stopReason, "end_turn");
  assert.match(JSON.stringify((await place.models?.requested(2))?.body.messages), /half .{1,6} of it/u);
});

test("a line of 1 MB survives framing in both directions", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  const method = `_${"é".repeat(524_288)}`;
  agent.send({ id: 1, method });
  assert.equal((await failure(agent, 1)).data?.method, method);
});

test("CRLF, blank lines and UTF-8 split across chunks survive framing", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  const method = "_é\u{1f600}\u2028";
  agent.write("\r\n\n   \n\t\r\n");
  agent.write(`{"jsonrpc":"2.0",\t"id":1,"method":"ping"}\r\n`);
  const line = Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", id: 2, method })}\r\n`);
  for (const byte of line) {
    agent.write(Uint8Array.of(byte));
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  agent.write(`\n\n${JSON.stringify({ jsonrpc: "2.0", id: 3, method: "ping" })}\n`.repeat(1));
  assert.equal((await failure(agent, 2)).data?.method, method);
  assert.equal((await failure(agent, 3)).code, -32_601);
  assert.equal((await failure(agent, 1)).code, -32_601);
  assert.equal(agent.lines.length, 4);
});

test("a line above acp.max_line_bytes is refused by its id, and the next line is answered", async () => {
  await using place = await createAcpPlace({ config: "acp:\n  max_line_bytes: 65536\n" });
  const agent = await greeted(place);
  agent.send({ id: 1, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  const { sessionId } = (await agent.answer(1))["result"] as { readonly sessionId: string };
  const prompt = [{ type: "text", text: "x".repeat(70_000) }];
  agent.send({ id: 2, method: "session/prompt", params: { sessionId, prompt } });
  const { code, message } = await failure(agent, 2);
  assert.equal(code, -32_600);
  assert.match(message, /65536 bytes.*acp\.max_line_bytes/);
  agent.write(`${"y".repeat(70_000)}\n`);
  assert.deepEqual(await nameless(agent, 1), [-32_600]);
  agent.send({
    id: 3,
    method: "session/prompt",
    params: { sessionId, prompt: [{ type: "text", text: "hello" }] },
  });
  assert.deepEqual(Object.keys(await agent.answer(3)).includes("result"), true);
});

test("an error for an invalid parameter names it and says what is expected", async () => {
  await using place = await createAcpPlace();
  const agent = await greeted(place);
  const cwd = place.folder;
  const cases: readonly (readonly [method: string, params: object, message: RegExp])[] = [
    ["session/new", { cwd }, /^mcpServers is missing: it must be an array\.$/],
    ["session/new", { cwd: 7, mcpServers: [] }, /^cwd must be a string\.$/],
    [
      "session/new",
      { cwd, mcpServers: [{ name: "bare", command: "sh" }] },
      /^mcpServers\[0\] must have name, command, args/,
    ],
    ["session/prompt", { sessionId: "ses_x" }, /^prompt is missing: it must be an array\.$/],
    ["session/prompt", {}, /^sessionId is missing: it must be a string\.$/],
  ];
  for (const [index, [method, params, message]] of cases.entries()) {
    agent.send({ id: `case-${index}`, method, params });
    const error = await failure(agent, `case-${index}`);
    assert.equal(error.code, -32_602);
    assert.match(error.message, message);
    assert.deepEqual(Object.keys(error.data ?? {}), ["param"], "the data stays short");
  }
});

test("initialize accepts a protocol version as text", async () => {
  await using place = await createAcpPlace();
  const agent = place.start();
  agent.send({ id: 1, method: "initialize", params: { protocolVersion: "1" } });
  const { result } = (await agent.answer(1)) as { result?: { protocolVersion: number } };
  assert.equal(result?.protocolVersion, 1);
  agent.send({ id: 2, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  assert.ok((await agent.answer(2))["result"]);
});
