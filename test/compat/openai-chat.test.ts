import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, {
  AuthenticationError,
  BadRequestError,
  ConflictError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  type APIError,
} from "openai";
import type { ScriptState } from "../../src/agent/engines/scripted.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

const connect = (service: TestService, apiKey = KEY) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey, maxRetries: 0 });
const ask = (content: string) => ({ model: "agentd", messages: [{ role: "user" as const, content }] });

/** Wants the client's tool once for each city, then tells what came of it. */
function weatherScript({ messages }: ScriptState) {
  const answers = messages.flatMap((message) =>
    message.role === "tool" && message.status === "ok" ? [message.text] : [],
  );
  if (answers.length > 0) return { text: answers.join(" and ") };
  const calls = ["Bern", "Oslo"].map((city) => ({ tool: "weather", input: { city } }));
  return { text: "looking", calls };
}

const weather = {
  type: "function" as const,
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    parse: (json: string) => JSON.parse(json) as { city: string },
    function: ({ city }: { city: string }) => `${city} is sunny`,
  },
};

test("openai: runTools calls the client's functions and continues with their output", async () => {
  await using service = await startTestService({ script: weatherScript });
  const runner = connect(service).chat.completions.runTools({ ...ask("weather?"), tools: [weather] });
  assert.equal(await runner.finalContent(), "Bern is sunny and Oslo is sunny");
});

test("openai: runTools over a stream", async () => {
  await using service = await startTestService({ script: weatherScript });
  const runner = connect(service).chat.completions.runTools({
    ...ask("weather?"),
    tools: [weather],
    stream: true,
  });
  const said: string[] = [];
  runner.on("content", (delta) => void said.push(delta));
  assert.equal(await runner.finalContent(), "Bern is sunny and Oslo is sunny");
  assert.equal(said.join(""), "lookingBern is sunny and Oslo is sunny");
  const usage = await runner.totalUsage();
  assert.ok(usage.total_tokens >= 0);
});

test("openai: the stream helper collects tool calls", async () => {
  await using service = await startTestService({ script: weatherScript });
  const { function: described } = weather;
  const { parse: _parse, function: _function, ...plain } = described;
  const stream = connect(service).chat.completions.stream({
    ...ask("weather?"),
    tools: [{ type: "function", function: plain }],
  });
  const { choices } = await stream.finalChatCompletion();
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  assert.deepEqual(
    choices[0]?.message.tool_calls?.map(
      (call) => call.type === "function" && JSON.parse(call.function.arguments),
    ),
    [{ city: "Bern" }, { city: "Oslo" }],
  );
});

test("openai: its error classes stand for our statuses", async () => {
  await using service = await startTestService({
    keys: [
      { key: KEY, name: "a", scopes: ["chat"] },
      { key: "reader-key-0123456789", name: "b", scopes: ["read"] },
    ],
    script: () => ({ text: "", error: { code: "provider_error", message: "hung up" } }),
  });
  const client = connect(service);
  await assert.rejects(connect(service, "wrong-key-0123456789").models.list(), AuthenticationError);
  await assert.rejects(connect(service, "reader-key-0123456789").models.retrieve("nope"), NotFoundError);
  assert.equal(
    (await client.models.list()).data.length,
    1,
    "what clients ask first needs no scope of its own",
  );
  await assert.rejects(client.responses.retrieve("resp_x"), PermissionDeniedError);
  await assert.rejects(client.chat.completions.create({ ...ask("x"), n: 2 }), BadRequestError);
  await assert.rejects(client.chat.completions.create(ask("x")), (error: APIError) => {
    assert.equal(error.status, 502);
    assert.equal(error.code, "provider_error");
    assert.match(error.message, /hung up/);
    assert.ok(error.requestID);
    return true;
  });
});

test("openai: a key used with two requests is a ConflictError; its own retries reuse the run", async () => {
  await using service = await startTestService();
  const client = connect(service);
  const once = { headers: { "idempotency-key": "k" } };
  const first = await client.chat.completions.create(ask("one"), once);
  const again = await client.chat.completions.create(ask("one"), once);
  assert.equal(again.id, first.id);
  await assert.rejects(client.chat.completions.create(ask("two"), once), ConflictError);
});

test("openai: too many runs is a RateLimitError with a time to wait", async () => {
  const gate = Promise.withResolvers<void>();
  await using service = await startTestService({
    config: { limits: { max_concurrent_runs: 1 } },
    // What it says first gives a stream its headers.
    script: () => ({
      text: (async function* () {
        yield "o";
        await gate.promise;
        yield "k";
      })(),
    }),
  });
  const client = connect(service);
  const stream = await client.chat.completions.create({ ...ask("one"), stream: true });
  await assert.rejects(client.chat.completions.create(ask("two")), (error: RateLimitError) => {
    assert.ok(error instanceof RateLimitError);
    assert.ok(Number(error.headers?.get("retry-after")) >= 1);
    return true;
  });
  gate.resolve();
  for await (const _chunk of stream);
});

test("openai: an image goes with the prompt", async () => {
  await using service = await startTestService({
    script: ({ messages }) => {
      const last = messages.at(-1);
      return { text: last?.role === "user" ? (last.attachments?.[0]?.mediaType ?? "none") : "" };
    },
  });
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const content = [
    { type: "text" as const, text: "what is it?" },
    { type: "image_url" as const, image_url: { url: `data:image/png;base64,${pixel}` } },
  ];
  const { choices } = await connect(service).chat.completions.create({
    model: "agentd",
    messages: [{ role: "user", content }],
  });
  assert.equal(choices[0]?.message.content, "image/png");
});
