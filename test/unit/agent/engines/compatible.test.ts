/** Our reader of chat completions beside the model SDK's, on the same requests and the same bytes. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { EngineEvent, Message, ToolSpec } from "../../../../src/agent/engine.ts";
import { callCompatible } from "../../../../src/agent/engines/compatible/call.ts";
import type { ModelCallRequest } from "../../../../src/agent/engines/model-request.ts";
import { toPrompt } from "../../../../src/agent/engines/prompt.ts";
import { isContextTooLong, isRetryable, toTurnError } from "../../../../src/agent/engines/provider-error.ts";
import type { ProviderConfig } from "../../../../src/agent/engines/providers.ts";
import { callModel } from "../../../../src/agent/engines/sdk-call.ts";
import { StallGuard } from "../../../../src/agent/engines/stall-guard.ts";
import { StepReader } from "../../../../src/agent/engines/step.ts";
import { systemClock } from "../../../../src/base/time.ts";
import { weatherTool } from "./turn-probe.ts";

/** What the server sends: a status other than 200 with a body, or a stream in these pieces. */
interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly pieces: readonly Uint8Array[];
  readonly isCut?: boolean;
}

interface RawServer extends AsyncDisposable {
  readonly provider: ProviderConfig;
  readonly bodies: string[];
  reply: Reply;
}

async function startRawServer(): Promise<RawServer> {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    bodies.push(body);
    const { status = 200, headers = { "content-type": "text/event-stream" }, pieces, isCut } = raw.reply;
    response.writeHead(status, headers);
    // After a turn of the loop the client has read the piece, so that it gets each one by itself.
    for (const piece of pieces)
      await new Promise((resolve) => response.write(piece, () => setImmediate(resolve)));
    if (isCut) response.destroy();
    else response.end();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const raw: RawServer = {
    provider: { name: "local", type: "openai_compatible", baseUrl, apiKey: "key" },
    bodies,
    reply: { pieces: [] },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return raw;
}

const hello = toPrompt([{ role: "user", text: "hi" }]).messages;
const askOf = (provider: ProviderConfig, more: Partial<ModelCallRequest> = {}): ModelCallRequest => ({
  provider,
  modelId: "m",
  instructions: "Be brief.",
  messages: hello,
  tools: [weatherTool, { ...weatherTool, name: "clock" }],
  checkInput: (_: ToolSpec, value) =>
    typeof (value as { city?: unknown } | null)?.city === "string" ? undefined : "a city is missing",
  toolChoice: undefined,
  format: undefined,
  settings: {},
  traceparent: undefined,
  ...more,
});

/** What a call comes to, without the names that are made anew each time. */
async function resultOf(call: (ports: { guard: StallGuard; reader: StepReader }) => Promise<void>) {
  const events: EngineEvent[] = [];
  const reader = new StepReader((event) => void events.push(event));
  const guard = new StallGuard(systemClock, { timeoutMs: 60_000, signal: new AbortController().signal });
  let failure: object | undefined;
  try {
    guard.alive();
    await call({ guard, reader });
  } catch (error) {
    const { code, message, failure: kind } = toTurnError(error, { name: "p", type: "openai_compatible" }, 0);
    failure = { code, message, kind, isRetryable: isRetryable(error), isLong: isContextTooLong(error) };
  } finally {
    guard.end();
  }
  const names = new Map<unknown, string>();
  const rename = (key: string, value: unknown) => {
    if (key !== "id" && key !== "messageId" && key !== "callId") return value;
    // An id of the server.
    if (typeof value === "string" && value.length === 1) return value;
    if (!names.has(value)) names.set(value, `${key}${names.size}`);
    return names.get(value);
  };
  const named = (value: unknown) => JSON.parse(JSON.stringify(value, rename)) as unknown;
  // Of a failed call, the SDK loses what was read in the same moment.
  if (failure) return { failure };
  return { events: named(events), result: named(reader.result()) };
}

async function both(server: RawServer, more: Partial<ModelCallRequest> = {}) {
  const { provider } = server;
  const request = askOf(provider, more);
  const model = createOpenAICompatible({
    name: provider.name,
    baseURL: provider.baseUrl ?? "",
    includeUsage: true,
    supportsStructuredOutputs: true,
    apiKey: provider.apiKey ?? "",
  })(request.modelId);
  const [sdk, own] = [
    await resultOf((ports) => callModel(model, request, ports)),
    await resultOf((ports) => callCompatible(request, ports)),
  ];
  const [bodyOfSdk, bodyOfOwn] = server.bodies.splice(0).map((body) => JSON.parse(body) as unknown);
  return { sdk, own, bodyOfSdk, bodyOfOwn };
}

const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const file = (mediaType: string, data = "aGVsbG8=") =>
  ({ type: mediaType.startsWith("image/") ? "image" : "file", mediaType, data, name: "a.b" }) as const;
const conversation: readonly Message[] = [
  { role: "user", text: "look", attachments: [file("image/png", png)] },
  {
    role: "assistant",
    parts: [
      { type: "reasoning", text: "hm", provider: { anthropic: { signature: "s" } } },
      { type: "text", text: "one " },
      { type: "text", text: "" },
      { type: "text", text: "two" },
      { type: "tool_call", callId: "c1", tool: "weather", input: { city: "Zürich \u2028" } },
      {
        type: "tool_call",
        callId: "c2",
        tool: "clock",
        input: "not an object",
        provider: { google: { thoughtSignature: "g" } },
      },
      {
        type: "tool_call",
        callId: "c3",
        tool: "clock",
        input: {},
        provider: { local: { thoughtSignature: "l" } },
      },
    ],
  },
  { role: "tool", callId: "c1", tool: "weather", status: "ok", text: "sunny" },
  { role: "tool", callId: "c2", tool: "clock", status: "denied", text: "no" },
  { role: "user", text: "", attachments: [file("application/pdf"), file("audio/wav"), file("text/plain")] },
  { role: "user", text: "", name: "Ada", attachments: [file("video/mp4"), file("application/zip")] },
  { role: "assistant", parts: [{ type: "text", text: "done" }] },
  { role: "user", text: "and?", name: "Ada" },
];
const schema = { type: "object", properties: { a: { type: "string" } } };
const settings = {
  temperature: 0.5,
  topP: 0.9,
  maxOutputTokens: 7,
  stop: ["END"],
  seed: 1,
  reasoningEffort: "high",
};

const requests: readonly (readonly [string, Partial<ModelCallRequest>])[] = [
  ["a conversation with files, calls and answers", { messages: toPrompt(conversation).messages }],
  ["no tools and no instructions", { tools: [], instructions: "" }],
  ["every setting", { settings }],
  ["a reasoning effort that no provider knows", { settings: { reasoningEffort: "much" } }],
  ["a required tool", { toolChoice: "required" }],
  ["a certain tool", { toolChoice: { tool: "clock" } }],
  ["a schema for the answer", { format: { schema, name: "n", description: "d", isStrict: true } }],
  ["a schema without a name", { format: { schema } }],
  ["any JSON", { format: {} }],
];
for (const [title, more] of requests) {
  test(`a request with ${title} is the one that the model SDK sends`, async () => {
    await using server = await startRawServer();
    const { bodyOfSdk, bodyOfOwn } = await both(server, more);
    assert.ok(bodyOfSdk);
    assert.deepEqual(bodyOfOwn, bodyOfSdk);
  });
}

test("a file of a type that chat completions do not take fails as with the model SDK", async () => {
  await using server = await startRawServer();
  const { messages } = toPrompt([{ role: "user", text: "", attachments: [file("audio/ogg")] }]);
  const { sdk, own } = await both(server, { messages });
  assert.ok(sdk.failure);
  assert.deepEqual(own, sdk);
});

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (delta: unknown, more: object = {}) =>
  data({ id: "x", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: null, ...more }] });
const call = (delta: object) => chunk({ tool_calls: [delta] });
const stop = chunk({}, { finish_reason: "stop" });

/** Streams of servers that are, or were, in use, and some of none. */
const streams: readonly string[] = [
  chunk({ role: "assistant", content: "" }) + chunk({ content: "Grüße 🦆" }) + stop,
  chunk({ content: "a" }).replaceAll("\n", "\r\n") + chunk({ content: "b" }).replaceAll("\n", "\r") + stop,
  `\u{feff}: comment\nevent: x\nid: 7\nretry: 3\n${chunk({ content: "a" })}${stop}data: [DONE]\n\n`,
  `data: {"choices":\ndata: [{"delta":{"content":"in lines"},"finish_reason":"stop"}]}\n\n`,
  chunk({ content: "never ended" }) + stop.trimEnd(),
  chunk({ reasoning_content: "hm" }) +
    chunk({ reasoning: "hm" }) +
    chunk({ content: "a" }) +
    chunk({ reasoning: "b" }) +
    stop,
  chunk({
    content: [
      { type: "thinking", thinking: [{ type: "text", text: "t" }, null, 3] },
      { type: "text", text: "a" },
      { type: "odd" },
    ],
  }) + stop,
  chunk({ content: "I " }) + chunk({ refusal: "cannot" }, { finish_reason: "stop" }),
  chunk({ content: "x", refusal: false }) + stop,
  chunk({ content: "x" }, { finish_reason: "length" }),
  chunk({ content: "x" }, { finish_reason: "content_filter" }),
  chunk({ content: "x" }, { finish_reason: "eos" }),
  chunk({ content: "x" }, { finish_reason: "" }),
  chunk({ content: "x" }),
  chunk({ content: "x" }) +
    data({ choices: [] }) +
    stop +
    data({
      choices: [],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 1 },
      },
    }),
  stop + data({ choices: [], usage: { prompt_tokens: null, more: 7 } }),
  data({ choices: [], usage: { prompt_tokens: "3" } }) + stop,
  chunk({ role: "user", content: "x" }) + stop,
  chunk({ content: 7 }) + stop,
  data({ choices: [{ delta: null, finish_reason: "stop" }] }),
  data({ choices: [{ finish_reason: "stop" }, { delta: { content: 7 } }] }),
  "data: {nonsense\n\n",
  "data: null\n\n",
  "data:\n\n",
  data({ error: { message: "broken", type: "t", code: 7 } }),
  data({ error: { message: "overloaded" } }),
  data({ error: { message: "slow down", code: "429" } }),
  data({ error: { message: "maximum context length is 8", code: "context_length_exceeded" } }),
  data({ error: "text" }),
  data({ error: { message: "both" }, choices: [] }),
  data({ object: "error", message: "This model's maximum context length is 8 tokens", code: 400 }),
  call({ index: 0, id: "c", function: { name: "weather", arguments: "" } }) +
    call({ index: 0, function: { arguments: '{"city":"Pa' } }) +
    call({ index: 0, function: { arguments: 'ris"}' } }) +
    chunk({}, { finish_reason: "tool_calls" }),
  call({ index: 0, id: "c", function: { arguments: '{"ci' } }) +
    call({ index: 0, function: { name: "weather", arguments: 'ty":"R"}' } }) +
    stop,
  call({ id: "c", function: { name: "weather", arguments: '{"city":"R"}' } }) +
    call({ id: "d", function: { name: "clock", arguments: "" } }) +
    stop,
  call({ index: 0, id: "c", function: { name: "weather", arguments: '{"city":"A"}' } }) +
    call({ index: 0, id: "d", function: { name: "weather", arguments: '{"city":"B"}' } }) +
    stop,
  call({ index: 1, id: "c", function: { name: "weather", arguments: '{"city":"A"}' } }) +
    call({ index: 0, id: "c", function: { name: "weather", arguments: '{"city":"B"}' } }) +
    stop,
  call({ index: 0, id: "", function: { name: "weather", arguments: '{"city":7}' } }) + stop,
  call({ index: 0, id: "c", function: { name: "unknown", arguments: '{"a":1}' } }) + stop,
  call({ index: 0, id: "c", function: { name: "weather", arguments: '{"city":"A","__proto__":{"x":1}}' } }) +
    stop,
  call({
    index: 0,
    id: "c",
    function: { name: "weather", arguments: '{"city":"A","\\u005f_proto__":{"x":1}}' },
  }) + stop,
  call({
    index: 0,
    id: "c",
    function: { name: "weather", arguments: '{"city":"A","constructor":{"prototype":1}}' },
  }) + stop,
  call({ index: 0, id: "c", function: { name: "weather", arguments: "{half" } }) + stop,
  call({ index: 0, id: "c", function: {} }) + stop,
  call({ index: 0, id: "c" }) + stop,
  call({
    index: 0,
    id: "c",
    function: { name: "weather", arguments: '{"city":"A"}' },
    extra_content: { google: { thought_signature: "s" } },
  }) + stop,
  chunk({
    content: "a",
    reasoning: "r",
    tool_calls: [{ index: 0, id: "c", function: { name: "clock", arguments: '{"city":"A"}' } }],
  }) +
    chunk({ content: "b" }) +
    stop,
  "",
];

test("answers are read as the model SDK reads them, wherever the network cuts the bytes", async () => {
  await using server = await startRawServer();
  const random = seeded(7);
  for (const [index, stream] of streams.entries()) {
    for (const pieces of [[Buffer.from(stream)], cutAt(Buffer.from(stream), random)]) {
      server.reply = { pieces };
      const { sdk, own } = await both(server);
      assert.deepEqual(own, sdk, `stream ${index}: ${stream}`);
    }
  }
});

test("characters whose bytes arrive one by one are read whole", async () => {
  await using server = await startRawServer();
  server.reply = { pieces: [...Buffer.from(streams[0] ?? "")].map((byte) => Uint8Array.of(byte)) };
  const { sdk, own } = await both(server);
  assert.deepEqual(own, sdk);
  assert.ok(JSON.stringify(own).includes("Grüße 🦆"));
});

test("streams put together at random are read as the model SDK reads them", async () => {
  await using server = await startRawServer();
  const random = seeded(1);
  const frames = streams.flatMap((stream) => stream.split(/(?<=\n\n)/)).filter((frame) => frame !== "");
  for (let round = 0; round < 150; round++) {
    const length = 1 + Math.floor(random() * 6);
    const picked = Array.from({ length }, () => frames[Math.floor(random() * frames.length)] ?? "");
    const stream = `${picked.join("")}${random() < 0.7 ? stop : ""}`;
    server.reply = { pieces: cutAt(Buffer.from(stream), random) };
    const { sdk, own } = await both(server);
    assert.deepEqual(own, sdk, stream);
  }
});

for (const [title, reply] of [
  [
    "a refusal in OpenAI's words",
    { status: 400, pieces: [Buffer.from('{"error":{"message":"maximum context length is 8"}}')] },
  ],
  ["a refusal in other words", { status: 422, pieces: [Buffer.from("<html>prompt is too long")] }],
  ["a refusal without words", { status: 503, pieces: [] }],
  ["a rate limit with a wait", { status: 429, headers: { "retry-after": "7" }, pieces: [Buffer.from("{}")] }],
  ["a redirect without an address", { status: 302, pieces: [] }],
  ["an answer that breaks off", { pieces: [Buffer.from(chunk({ content: "half" }))], isCut: true }],
] as const) {
  test(`${title} becomes the error that it becomes with the model SDK`, async () => {
    await using server = await startRawServer();
    server.reply = reply;
    const { sdk, own } = await both(server);
    assert.ok(sdk.failure);
    assert.deepEqual(own, sdk);
  });
}

test("a null where a server could report an error is not an error", async () => {
  await using server = await startRawServer();
  server.reply = {
    pieces: [Buffer.from(data({ error: null, choices: [{ delta: { content: "fine" } }] }) + stop)],
  };
  const { text } = (await resultOf((ports) => callCompatible(askOf(server.provider), ports))).result as {
    text: string;
  };
  assert.equal(text, "fine");
});

function cutAt(bytes: Buffer, random: () => number): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + Math.floor(random() * random() * 60);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

/** Numbers from 0 to 1 that are the same in every run (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
