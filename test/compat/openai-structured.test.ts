/** Structured output with the official client, over model servers that support it, refuse it, or ignore it. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import OpenAI, { type InternalServerError } from "openai";
import { calling, saying, type ModelReply, type ModelRequest } from "../harness/openai-server.ts";
import { startFlow, type Flow } from "../harness/provider-flow.ts";
import { KEY } from "../harness/service.ts";

const connect = ({ service }: Flow) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey: KEY, maxRetries: 0 });
const messages = [{ role: "user" as const, content: "Where is Bern?" }];
const schema = {
  type: "object",
  properties: { city: { $ref: "#/$defs/name" }, country: { type: "string" } },
  required: ["city", "country"],
  additionalProperties: false,
  $defs: { name: { type: "string" } },
};
const place = { city: "Bern", country: "Switzerland" };
const json = JSON.stringify(place);
const json_schema = { name: "place", description: "A place on earth.", schema, strict: true };
const response_format = { type: "json_schema" as const, json_schema };
const format = { type: "json_schema" as const, ...json_schema };
const refused: ModelReply = {
  status: 400,
  body: JSON.stringify({
    error: { message: "response_format is not supported", type: "invalid_request_error" },
  }),
};

const formatOf = ({ body }: ModelRequest) => body["response_format"] as Record<string, unknown> | undefined;
const systemOf = ({ body }: ModelRequest) => String(body.messages[0]?.["content"]);

test("openai: parse() hands the schema to a provider that supports it", async () => {
  await using flow = await startFlow([saying(json)]);
  const { choices } = await connect(flow).chat.completions.parse({
    model: "agentd",
    messages,
    response_format,
  });
  assert.deepEqual(choices[0]?.message.parsed, place);
  assert.equal(choices[0]?.finish_reason, "stop");
  assert.deepEqual(formatOf(flow.models.requests[0]!), { type: "json_schema", json_schema });
});

test("openai: a schema that is not strict is handed over as it is", async () => {
  await using flow = await startFlow([saying(json)]);
  const loose = { type: "json_schema" as const, json_schema: { name: "place", schema } };
  await connect(flow).chat.completions.parse({ model: "agentd", messages, response_format: loose });
  const expected = { type: "json_schema", json_schema: { name: "place", schema, strict: false } };
  assert.deepEqual(formatOf(flow.models.requests[0]!), expected);
});

test("openai: JSON of a provider that supports the schema is streamed before it is complete", async () => {
  const begun: ModelReply = { pieces: [{ text: json.slice(0, 5) }, { hang: true }] };
  await using flow = await startFlow([begun]);
  const asked = { model: "agentd", messages, response_format, stream: true as const };
  const stream = await connect(flow).chat.completions.create(asked);
  for await (const chunk of stream) {
    const text = chunk.choices[0]?.delta.content;
    if (!text) continue;
    assert.equal(text, json.slice(0, 5));
    break;
  }
});

test("openai: responses.parse() and responses.stream() give the object", async () => {
  await using flow = await startFlow([saying(json), saying(json.slice(0, 9), json.slice(9))]);
  const asked = { model: "agentd", input: "Where is Bern?", text: { format } };
  const parsed = await connect(flow).responses.parse(asked);
  assert.deepEqual(parsed.output_parsed, place);
  assert.deepEqual(parsed.text?.format, format);
  const streamed = await connect(flow).responses.stream(asked).finalResponse();
  assert.deepEqual(streamed.output_parsed, place);
  assert.deepEqual(formatOf(flow.models.requests[1]!), { type: "json_schema", json_schema });
});

test("openai: every model call of a turn has the format, and text before a tool call is not in the answer", async () => {
  const call = { id: "call_1", name: "read_file", json: JSON.stringify({ path: "bern.txt" }) };
  const first = calling(call) as Extract<ModelReply, { pieces: unknown }>;
  const talking = { pieces: [{ text: "Let me look it up." }, ...first.pieces] };
  await using flow = await startFlow([talking, saying(json), talking, saying(json)]);
  await writeFile(join(flow.service.workspace, "bern.txt"), "in Switzerland");
  const asked = { model: "agentd", messages, response_format };
  const { choices } = await connect(flow).chat.completions.parse(asked);
  assert.equal(choices[0]?.message.content, json);
  const streamed = await connect(flow).chat.completions.stream(asked).finalChatCompletion();
  assert.deepEqual(streamed.choices[0]?.message.parsed, place);
  assert.equal(flow.models.requests.filter((request) => formatOf(request)).length, 4);
  assert.match(JSON.stringify(flow.models.requests[1]!.body.messages), /in Switzerland/);
});

test("openai: the client's functions and a format together", async () => {
  const weather = {
    type: "function" as const,
    function: { name: "weather", parameters: { type: "object", properties: {} } },
  };
  await using flow = await startFlow([calling({ id: "call_1", name: "weather", json: "{}" }), saying(json)]);
  const asked = { model: "agentd", response_format, tools: [weather] };
  const first = await connect(flow).chat.completions.create({ ...asked, messages });
  assert.equal(first.choices[0]?.finish_reason, "tool_calls");
  const { message } = first.choices[0]!;
  const result = { role: "tool" as const, tool_call_id: "call_1", content: "sunny" };
  const second = await connect(flow).chat.completions.create({
    ...asked,
    messages: [...messages, message, result],
  });
  assert.equal(second.choices[0]?.message.content, json);
});

test("openai: a provider that refuses the format gets instructions instead, and is not asked again", async () => {
  const fenced = "```json\n" + json + "\n```";
  await using flow = await startFlow([refused, saying(fenced), saying(json)]);
  const asked = { model: "agentd", messages, response_format };
  const { choices } = await connect(flow).chat.completions.parse(asked);
  assert.equal(choices[0]?.message.content, json);
  const [first, second] = flow.models.requests;
  assert.ok(formatOf(first!));
  assert.equal(formatOf(second!), undefined);
  assert.match(
    systemOf(second!),
    /must fit this JSON Schema \(place: A place on earth\.\):\n\{"type":"object"/,
  );
  await connect(flow).chat.completions.parse(asked);
  assert.equal(formatOf(flow.models.requests[2]!), undefined);
});

for (const stream of [false, true]) {
  test(`openai: an answer in words is corrected before anyone sees it${stream ? ", over a stream" : ""}`, async () => {
    const wrong = JSON.stringify({ city: "Bern" });
    await using flow = await startFlow([
      saying("It is in Switzerland."),
      saying(`Here: ${wrong}`),
      saying(json),
      saying(json),
    ]);
    const asked = { model: "agentd", messages, response_format };
    const { chat } = connect(flow);
    const { choices, usage } = stream
      ? await chat.completions
          .stream({ ...asked, stream_options: { include_usage: true } })
          .finalChatCompletion()
      : await chat.completions.parse(asked);
    assert.deepEqual(choices[0]?.message.parsed, place);
    assert.equal(choices[0]?.message.content, json);
    assert.ok(usage);
    const [, second] = flow.models.requests;
    const last = second!.body.messages.slice(-2).map(({ role, content }) => [role, content]);
    assert.deepEqual(last[0], ["assistant", "It is in Switzerland."]);
    assert.match(String(last[1]?.[1]), /does not have the required format: it is not JSON/);
    await chat.completions.parse(asked);
    assert.match(systemOf(flow.models.requests[3]!), /must fit this JSON Schema/);
  });
}

test("openai: a model that never answers in the format is one clear error after two corrections", async () => {
  await using flow = await startFlow([saying("no"), saying("{}"), saying("still no"), saying("never asked")]);
  const client = new OpenAI({ baseURL: `${flow.service.url}/v1`, apiKey: KEY });
  await assert.rejects(
    client.chat.completions.parse({ model: "agentd", messages, response_format }),
    (error: InternalServerError) => {
      assert.equal(error.status, 502);
      assert.equal(error.code, "agent_incomplete");
      assert.match(error.message, /local:test-model does not have the requested format: it is not JSON/);
      assert.equal(error.headers?.get("x-should-retry"), "false");
      return true;
    },
  );
  assert.equal(flow.models.requests.length, 3);
});

test("openai: json_object takes any object, and its instructions speak of JSON", async () => {
  await using flow = await startFlow([saying("[1]"), saying('{"any":1}')]);
  const asked = { model: "agentd", messages, response_format: { type: "json_object" as const } };
  const { choices } = await connect(flow).chat.completions.create(asked);
  assert.equal(choices[0]?.message.content, '{"any":1}');
  assert.deepEqual(formatOf(flow.models.requests[0]!), { type: "json_object" });
  assert.match(systemOf(flow.models.requests[0]!), /one JSON object/);
});

test("openai: a refusal of the provider is the message's refusal, in every form of the answer", async () => {
  const raw = (delta: object, finish: string | null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const reply: ModelReply = {
    pieces: [
      { raw: raw({ role: "assistant", refusal: "I cannot say that." }, null) },
      { raw: raw({}, "stop") },
    ],
  };
  await using flow = await startFlow([reply, reply, reply, reply]);
  const asked = { model: "agentd", messages, response_format };
  const client = connect(flow);
  for (const { choices } of [
    await client.chat.completions.parse(asked),
    await client.chat.completions.stream(asked).finalChatCompletion(),
  ]) {
    assert.equal(choices[0]?.message.refusal, "I cannot say that.");
    assert.ok(!choices[0]?.message.content);
    assert.equal(choices[0]?.message.parsed, null);
    assert.equal(choices[0]?.finish_reason, "stop");
  }
  const body = { model: "agentd", input: "Where?", text: { format } };
  for (const response of [
    await client.responses.parse(body),
    await client.responses.stream(body).finalResponse(),
  ]) {
    const [item] = response.output;
    assert.ok(item?.type === "message");
    assert.deepEqual(
      item.content.map((part) => part.type === "refusal" && part.refusal),
      ["I cannot say that."],
    );
    assert.equal(response.status, "completed");
  }
});

test("openai: an answer that the length limit cuts is given as it is, with its reason", async () => {
  await using flow = await startFlow([{ pieces: [{ text: '{"city":"Be' }, { finish: "length" }] }]);
  const { choices } = await connect(flow).chat.completions.create({
    model: "agentd",
    messages,
    response_format,
  });
  assert.equal(choices[0]?.finish_reason, "length");
  assert.equal(choices[0]?.message.content, '{"city":"Be');
});
