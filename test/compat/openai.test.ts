import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError } from "openai";
import { demoScript } from "../../src/agent/engines/scripted.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

const connect = (service: TestService, apiKey = KEY) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey, maxRetries: 0 });
const ask = (content: string) => ({ model: "agentd", messages: [{ role: "user" as const, content }] });

test("openai: chat.completions.create", async () => {
  await using service = await startTestService({ script: demoScript });
  const completion = await connect(service).chat.completions.create(ask("hi"));
  assert.match(completion.choices[0]?.message.content ?? "", /demo model/);
  assert.ok(completion.usage!.total_tokens > 0);
});

test("openai: a stream with a tool call of the agent in it, and its usage", async () => {
  await using service = await startTestService({
    script: demoScript,
  });
  const stream = await connect(service).chat.completions.create({
    ...ask("run: echo from-$((20 + 3))"),
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage: { total_tokens: number } | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.match(text, /Calling terminal[\s\S]*from-23/);
  assert.ok(usage!.total_tokens > 0);
});

test("openai: the stream helper collects the final completion", async () => {
  await using service = await startTestService({ script: () => ({ text: "one two", chunkSize: 3 }) });
  const runner = connect(service).chat.completions.stream(ask("hi"));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0]?.message.content, "one two");
  assert.equal(final.choices[0]?.finish_reason, "stop");
});

test("openai: an error inside a stream is thrown as APIError", async () => {
  const error = { code: "provider_error" as const, message: "hung up" };
  await using service = await startTestService({ script: () => ({ text: "begun", error }) });
  const stream = await connect(service).chat.completions.create({ ...ask("hi"), stream: true });
  await assert.rejects(async () => {
    for await (const _chunk of stream);
  }, APIError);
});

test("openai: leaving a stream cancels its run", async () => {
  await using service = await startTestService({
    script: ({ signal }) => ({
      text: (async function* () {
        yield "begun";
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      })(),
    }),
  });
  const { data: stream, response } = await connect(service)
    .chat.completions.create({ ...ask("hi"), stream: true })
    .withResponse();
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content === "begun") break;
  const runId = response.headers.get("x-agent-run-id")!;
  for await (const group of service.service.store.journal.follow({ runId })) {
    if (group.some(({ type }) => type === "run.cancelled")) break;
  }
});

test("openai: models.list and models.retrieve", async () => {
  await using service = await startTestService();
  const client = connect(service);
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["agentd"]);
  assert.equal((await client.models.retrieve("agentd")).owned_by, "agent");
});

test("openai: error classes", async () => {
  await using service = await startTestService();
  await assert.rejects(connect(service, "wrong-key-wrong-key").models.list(), AuthenticationError);
  const client = connect(service);
  await assert.rejects(client.models.retrieve("nope"), NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...ask("x"), n: 2 }), (error: unknown) => {
    return error instanceof BadRequestError && error.code === "unsupported_parameter" && error.param === "n";
  });
});
