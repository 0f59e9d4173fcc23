import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { choose, createAcpPlace, type AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, tooLong, type ModelReply } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

interface Case {
  readonly name: string;
  readonly reply: ModelReply;
  readonly code: number;
  readonly data: Readonly<Record<string, unknown>>;
}

const cases: readonly Case[] = [
  {
    name: "401",
    reply: { status: 401, body: secretly(401) },
    code: -32_000,
    data: { kind: "provider", status: 401, retryable: false },
  },
  {
    name: "403",
    reply: { status: 403, body: secretly(403) },
    code: -32_000,
    data: { kind: "provider", status: 403, retryable: false },
  },
  {
    name: "429",
    reply: { status: 429, headers: { "retry-after": "120" }, body: secretly(429) },
    code: -32_603,
    data: { kind: "rate_limit", status: 429, retryAfter: 120, retryable: true },
  },
  {
    name: "400",
    reply: { status: 400, body: secretly(400) },
    code: -32_603,
    data: { kind: "provider", status: 400, retryable: false },
  },
  {
    name: "context overflow",
    reply: tooLong,
    code: -32_603,
    data: { kind: "context_length", status: 400, retryable: false },
  },
  {
    name: "a connection that is cut",
    reply: { pieces: [{ text: "half an answ" }, { cut: true }] },
    code: -32_603,
    data: { kind: "network", retryable: true },
  },
];

test("a provider error fails the prompt with its kind and a code, and the next prompt works", async () => {
  const replies: ModelReply[] = [];
  await using place = await sharedPlace({ replies: () => replies.shift() ?? saying("well again") });
  const agentd = place.start();
  const editor = await agentd.client();
  for (const { name, reply, code, data } of cases) {
    const sessionId = await editor.session(place.folder);
    replies.push(reply, ...(reply === tooLong ? [tooLong, tooLong] : []));
    const error = await failure(editor, sessionId, "hello");
    assert.equal(error.code, code, name);
    assert.deepEqual(pick(error.data, Object.keys(data)), data, name);
    const known = ["kind", "status", "retryAfter", "retryable"];
    assert.deepEqual(
      Object.keys(error.data as object).filter((key) => !known.includes(key)),
      [],
      `${name}: clients show the data beside the message`,
    );
    assert.ok(error.message.length <= 400 && !error.message.includes("\n"), `${name}: ${error.message}`);
    replies.length = 0;
    assert.equal((await editor.prompt(sessionId, "again")).stopReason, "end_turn", name);
    assert.match(editor.text(sessionId), /well again$/, name);
  }
  const wire = JSON.stringify(agentd.lines);
  assert.ok(!wire.includes("sk-very-secret-0123456789abcdefghij"), "what a provider wrote is not repeated");
  assert.ok(
    !/\n\s+at .*\.ts:\d+/.test(agentd.lines.map((line) => JSON.stringify(line)).join("\n")),
    "no stack",
  );
});

test("repeated provider errors 500 and 503 are reported as kind provider and overloaded", async () => {
  const replies: ModelReply[] = [];
  await using place = await sharedPlace({ replies: () => replies[0] ?? saying("well again") });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  for (const [status, kind] of [
    [500, "provider"],
    [503, "overloaded"],
  ] as const) {
    replies[0] = { status, headers: { "retry-after-ms": "1" }, body: secretly(status) };
    const error = await failure(editor, sessionId, "hello");
    assert.equal(error.code, -32_603);
    assert.deepEqual(pick(error.data, ["kind", "status", "retryable"]), { kind, status, retryable: true });
  }
  replies.length = 0;
  assert.equal((await editor.prompt(sessionId, "again")).stopReason, "end_turn");
});

for (const { name, capabilities } of [
  { name: "a notice", capabilities: { session: { notices: {} } } },
  { name: "text in a client without notices", capabilities: {} },
]) {
  test(`a retry of the provider is reported as ${name} while the prompt waits`, async () => {
    const limited = { status: 429, headers: { "retry-after": "1" }, body: secretly(429) };
    await using place = await sharedPlace({ replies: [limited, saying("well again")] });
    const editor = await place.start().client({ capabilities });
    await editor.prompt(await editor.session(place.folder), "hello");
    const retry = /The provider local failed; trying again in 1 seconds\./;
    const [notice] = editor.updates("notice");
    const [first] = editor.updates("agent_message_chunk");
    const text = first?.content.type === "text" ? first.content.text : "";
    assert.match(notice?.title ?? text, retry);
    assert.equal(notice?.severity, "session" in capabilities ? "warning" : undefined);
    assert.match(editor.text(), /well again$/);
    assert.equal(retry.test(editor.text()), !("session" in capabilities));
  });
}

test("a provider that stays silent too long is reported as kind network", async () => {
  const replies: ModelReply[] = [{ pieces: [{ text: "half" }, { hang: true }] }];
  // Its own: a program that runs already would keep its time limit of two minutes.
  await using place = await createAcpPlace({ replies: () => replies.shift() ?? saying("well again") });
  const config = join(place.home, "config.yaml");
  const written = await readFile(config, "utf8");
  await writeFile(
    config,
    written.replace("type: openai_compatible,", "type: openai_compatible, timeout_seconds: 1,"),
  );
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const error = await failure(editor, sessionId, "hello");
  assert.equal(error.code, -32_603);
  assert.deepEqual(pick(error.data, ["kind", "retryable"]), { kind: "network", retryable: true });
  assert.equal((await editor.prompt(sessionId, "again")).stopReason, "end_turn");
});

test("partial text stays after a provider failure, and no other text is added", async () => {
  const replies: ModelReply[] = [{ pieces: [{ text: "half an answ" }, { cut: true }] }];
  await using place = await sharedPlace({ replies: () => replies.shift() ?? saying("whole") });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await failure(editor, sessionId, "hello");
  assert.equal(editor.text(), "half an answ");
});

test("a length stop answers max_tokens", async () => {
  await using place = await sharedPlace({
    replies: [{ pieces: [{ text: "and so on and" }, { finish: "length" }] }],
  });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "long")).stopReason, "max_tokens");
});

const refused: ModelReply = { pieces: [{ text: "I will not." }, { finish: "content_filter" }] };

test("a refused prompt and its answer are gone from the next model call and from session/load", async () => {
  await using place = await sharedPlace({
    replies: [saying("first answer"), refused, saying("third answer")],
  });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "first prompt");
  // The third prompt is queued while the second one runs.
  const second = editor.prompt(sessionId, "a bad prompt");
  const third = editor.prompt(sessionId, "third prompt");
  assert.equal((await second).stopReason, "refusal");
  assert.match(editor.text(), /I will not\./, "the user sees why");
  assert.equal((await third).stopReason, "end_turn");
  const sent = JSON.stringify(place.models?.requests.at(-1)?.body.messages);
  assert.match(sent, /first prompt.*first answer.*third prompt/s);
  assert.doesNotMatch(sent, /bad prompt|I will not/);

  const other = await place.start().client();
  await other.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers: [] });
  const replayed = other.seen.flatMap((each) => (each.kind === "update" ? [each.update] : []));
  const texts = replayed.flatMap((update) =>
    "content" in update && !Array.isArray(update.content) && update.content?.type === "text"
      ? [update.content.text]
      : [],
  );
  assert.deepEqual(texts, ["first prompt", "first answer", "third prompt", "third answer"]);
});

test("a refusal after a tool call ends the turn with a message and keeps it in the conversation", async () => {
  await using place = await sharedPlace({
    replies: [
      calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: "echo made > file" }) }),
      refused,
      saying("next answer"),
    ],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "make it")).stopReason, "end_turn");
  assert.match(editor.text(), /I will not\.[^]*The model refused to continue/);
  await editor.prompt(sessionId, "next");
  assert.match(JSON.stringify(place.models?.requests.at(-1)?.body.messages), /make it.*echo made.*next/s);
});

test("a turn that reaches agent.max_steps answers max_turn_requests", async () => {
  await using place = await sharedPlace({
    replies: (_, index) =>
      calling({ id: `call_${index}`, name: "terminal", json: JSON.stringify({ command: "true" }) }),
    config: "agent:\n  max_steps: 3\n",
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "for ever")).stopReason, "max_turn_requests");
  assert.equal(place.models?.requests.length, 3);
});

async function failure(editor: AcpClient, sessionId: string, text: string): Promise<RequestError> {
  const answer = await editor.prompt(sessionId, text).catch((error: unknown) => error);
  assert.ok(answer instanceof RequestError, `no error but ${JSON.stringify(answer)}`);
  return answer;
}

/** Providers repeat keys in what they complain of. */
function secretly(status: number): string {
  return JSON.stringify({
    error: { message: `status ${status} for key sk-very-secret-0123456789abcdefghij`, type: "x", code: "y" },
  });
}

function pick(from: unknown, keys: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(keys.map((key) => [key, (from as Readonly<Record<string, unknown>>)[key]]));
}
