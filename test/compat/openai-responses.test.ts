/** The responses API as the official client uses it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { ConflictError, NotFoundError } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import type { Script } from "../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../harness/agent.ts";
import { createGate, runEvent } from "../harness/runs.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

const connect = (service: TestService) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey: KEY, maxRetries: 0 });
const model = "gpt-4o";
const tools = [testTool(async ({ command }) => `did ${command}`)];
const script: Script = (state) => ({ reasoning: "hm", ...callsOnce("one", "two")(state) });
const runOf = (id: string) => `run_${id.slice("resp_".length)}`;

async function collect(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

test("openai responses: create, and go on from it", async () => {
  await using service = await startTestService({
    script: ({ messages }) => ({ text: messages.map(({ role }) => role).join(" ") }),
  });
  const client = connect(service);
  const one = await client.responses.create({ model, input: "hi", metadata: { a: "b" } });
  assert.equal(one.status, "completed");
  assert.equal(one.output_text, "user");
  assert.ok(one.usage!.total_tokens > 0);
  const two = await client.responses.create({ model, input: "and?", previous_response_id: one.id });
  assert.equal(two.output_text, "user assistant user");
  assert.equal(two.previous_response_id, one.id);
});

test("openai responses: a stream, event by event", async () => {
  await using service = await startTestService({ script, tools });
  const events = await collect(await connect(service).responses.create({ model, input: "go", stream: true }));
  assert.deepEqual(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  const last = events.at(-1);
  assert.ok(last?.type === "response.completed");
  assert.deepEqual(
    last.response.output.map(({ type }) => type),
    ["reasoning", "mcp_call", "mcp_call", "reasoning", "message"],
  );
});

test("openai responses: the stream helper collects the same response", async () => {
  await using service = await startTestService({ script, tools });
  const client = connect(service);
  const runner = client.responses.stream({ model, input: "go" });
  const deltas: string[] = [];
  runner.on("response.output_text.delta", ({ delta }) => void deltas.push(delta));
  const final = await runner.finalResponse();
  assert.equal(final.output_text, "ok: did one\nok: did two");
  assert.equal(deltas.join(""), final.output_text);
  const stored = await client.responses.retrieve(final.id);
  assert.equal(stored.output_text, final.output_text);
  assert.deepEqual(
    stored.output.map(({ id }) => id),
    final.output.map(({ id }) => id),
  );
});

test("openai responses: the helper takes up a stream by its id", async () => {
  const gate = createGate();
  await using service = await startTestService({ script: gate.script });
  const client = connect(service);
  const begun = await client.responses.create({ model, input: "go", background: true, stream: true });
  let id = "";
  let seen = -1;
  for await (const event of begun) {
    if (event.type === "response.created") id = event.response.id;
    seen = event.sequence_number;
    if (event.type === "response.output_text.delta") break;
  }
  gate.open();
  const rest = await collect(await client.responses.retrieve(id, { stream: true, starting_after: seen }));
  assert.equal(rest[0]?.sequence_number, seen + 1);
  assert.equal(rest.at(-1)?.type, "response.completed");
  const helper = client.responses.stream({ response_id: id, starting_after: seen });
  assert.equal((await helper.finalResponse()).output_text, "before after");
});

test("openai responses: background, cancel, retrieve, delete", async () => {
  const gate = createGate();
  await using service = await startTestService({ script: gate.script });
  const client = connect(service);
  const { id, status } = await client.responses.create({ model, input: "go", background: true });
  assert.ok(status === "queued" || status === "in_progress");
  await runEvent(service, runOf(id), "message.delta");
  assert.equal((await client.responses.cancel(id)).status, "cancelled");
  assert.equal((await client.responses.retrieve(id)).status, "cancelled");
  await client.responses.delete(id);
  await assert.rejects(client.responses.retrieve(id), NotFoundError);
  gate.open();
  const done = await client.responses.create({ model, input: "go" });
  await assert.rejects(client.responses.cancel(done.id), (error: unknown) => {
    return error instanceof ConflictError && error.code === "response_not_cancellable";
  });
});

test("openai responses: inputItems.list goes through all pages", async () => {
  await using service = await startTestService();
  const client = connect(service);
  const input = ["a", "b", "c", "d", "e"].map((content) => ({ role: "user" as const, content }));
  const { id } = await client.responses.create({ model, input });
  const texts: unknown[] = [];
  for await (const item of client.responses.inputItems.list(id, { order: "asc", limit: 2 })) {
    if (item.type === "message") texts.push(item.content[0]);
  }
  assert.deepEqual(
    texts,
    ["a", "b", "c", "d", "e"].map((text) => ({ type: "input_text", text })),
  );
});

test("openai responses: a function of the client's, called and answered", async () => {
  await using service = await startTestService({
    script: ({ messages }) => {
      const answer = messages.findLast((message) => message.role === "tool");
      return answer?.role === "tool" && answer.status === "ok"
        ? { text: `it is ${answer.text}` }
        : { calls: [{ tool: "weather", input: { city: "Rome" } }] };
    },
  });
  const client = connect(service);
  const parameters = { type: "object", properties: { city: { type: "string" } } };
  const declared = [{ type: "function" as const, name: "weather", parameters, strict: false }];
  const runner = client.responses.stream({ model, input: "how is it?", tools: declared });
  const first = await runner.finalResponse();
  const [call] = first.output;
  assert.ok(call?.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Rome" });
  const second = await client.responses.create({
    model,
    tools: declared,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }],
  });
  assert.equal(second.output_text, "it is sunny");
  // The other way: nothing kept, the output of the response is part of the next input.
  const kept = { model, tools: declared, store: false };
  const third = await client.responses.create({ ...kept, input: "how is it?" });
  const [again] = third.output;
  assert.ok(again?.type === "function_call");
  const fourth = await client.responses.create({
    ...kept,
    input: [
      { role: "user", content: "how is it?" },
      again,
      { type: "function_call_output", call_id: again.call_id, output: "rainy" },
    ],
  });
  assert.equal(fourth.output_text, "it is rainy");
});

test("openai responses: a failure and a conversation", async () => {
  await using service = await startTestService({
    script: ({ user, messages }) =>
      user === "fail"
        ? { text: "begun", error: { code: "provider_error", message: "hung up" } }
        : { text: String(messages.length) },
  });
  const client = connect(service);
  const events = await collect(await client.responses.create({ model, input: "fail", stream: true }));
  const last = events.at(-1);
  assert.ok(last?.type === "response.failed");
  assert.equal(last.response.error?.code, "server_error");
  await assert.rejects(client.responses.create({ model, input: "fail" }), { status: 502 });
  await client.responses.create({ model, input: "a", conversation: "trip" });
  const next = await client.responses.create({ model, input: "b", conversation: { id: "trip" } });
  assert.equal(next.output_text, "3");
  assert.deepEqual(next.conversation, { id: "trip" });
});
