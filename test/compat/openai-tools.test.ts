/** Functions of the client beside the agent's own tools, with the official client over a model server. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import OpenAI, { type APIError } from "openai";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { calling, saying, type ModelReply, type ModelRequest } from "../harness/openai-server.ts";
import { startFlow, type Flow, type FlowOptions } from "../harness/provider-flow.ts";
import { KEY } from "../harness/service.ts";

const connect = ({ service }: Flow) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey: KEY, maxRetries: 0 });
const model = "agentd";
const messages = [{ role: "user" as const, content: "How is the weather?" }];
const named = (name: string) => ({
  type: "function" as const,
  function: {
    name,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
});
const weather = named("weather");
const flat = {
  type: "function" as const,
  name: "weather",
  strict: false,
  parameters: weather.function.parameters,
};
const callWeather = calling({ id: "call_w", name: "weather", json: '{"city":"Bern"}' });
const readNote = calling({ id: "call_r", name: "read_file", json: '{"path":"note.txt"}' });
const both = calling(
  { id: "call_r", name: "read_file", json: '{"path":"note.txt"}' },
  { id: "call_w", name: "weather", json: '{"city":"Bern"}' },
);

const OTHER_KEY = "other-key-0123456789abcdef";

async function withNote(
  replies: readonly ModelReply[],
  config = {},
  keys?: FlowOptions["keys"],
): Promise<Flow> {
  const flow = await startFlow(replies, { config, ...(keys ? { keys } : {}) });
  await writeFile(join(flow.service.workspace, "note.txt"), "the note says 42");
  return flow;
}

const choiceOf = ({ body }: ModelRequest) => body["tool_choice"];
const toolsOf = ({ body }: ModelRequest) => (body.tools ?? []).map((tool) => tool.function["name"]);

for (const tool_choice of [
  "required",
  { type: "function" as const, function: { name: "weather" } },
] as const) {
  const what = typeof tool_choice === "string" ? "required" : "a named function";
  test(`openai: with tool_choice ${what}, a model that answers in words has answered`, async () => {
    await using flow = await startFlow([
      saying("It is sunny."),
      saying("It is sunny."),
      saying("It is sunny."),
    ]);
    const asked = { model, messages, tools: [weather], tool_choice };
    const { choices } = await connect(flow).chat.completions.create(asked);
    assert.equal(choices[0]?.message.content, "It is sunny.");
    assert.equal(choices[0]?.finish_reason, "stop");
    const streamed = await connect(flow).chat.completions.stream(asked).finalChatCompletion();
    assert.equal(streamed.choices[0]?.message.content, "It is sunny.");
    const choice =
      tool_choice === "required" ? tool_choice : ({ type: "function", name: "weather" } as const);
    const response = await connect(flow).responses.create({
      model,
      input: "How is it?",
      tools: [flat],
      tool_choice: choice,
    });
    assert.equal(response.output_text, "It is sunny.");
  });
}

test("openai: tool_choice required holds until one of the client's functions is called", async () => {
  await using flow = await withNote([readNote, callWeather]);
  const asked = { model, messages, tools: [weather], tool_choice: "required" as const };
  const { choices } = await connect(flow).chat.completions.create(asked);
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  assert.deepEqual(flow.models.requests.map(choiceOf), ["required", "required"]);
});

test("openai: in the last call of a turn, tool_choice required leaves only the client's functions", async () => {
  await using flow = await withNote([readNote, callWeather], { agent: { max_steps: 2 } });
  const asked = { model, messages, tools: [weather], tool_choice: "required" as const };
  const { choices } = await connect(flow).chat.completions.create(asked);
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  const [first, second] = flow.models.requests.map(toolsOf);
  assert.ok(first?.includes("read_file"));
  assert.deepEqual(second, ["weather"]);
});

test("openai: allowed_tools offers only some of the client's functions, in both formats", async () => {
  await using flow = await startFlow([saying("ok"), callWeather]);
  const tools = [weather, named("stocks")];
  const chosen = { type: "function", function: { name: "weather" } };
  await connect(flow).chat.completions.create({
    model,
    messages,
    tools,
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [chosen] } },
  });
  const response = await connect(flow).responses.create({
    model,
    input: "How is it?",
    tools: [flat, { ...flat, name: "stocks" }],
    tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "weather" }] },
  });
  assert.equal(response.output[0]?.type, "function_call");
  for (const request of flow.models.requests) {
    assert.ok(toolsOf(request).includes("weather"));
    assert.ok(!toolsOf(request).includes("stocks"));
  }
  assert.equal(choiceOf(flow.models.requests[1]!), "required");
});

test("openai: arguments that miss the schema of a client's function are for the client to check", async () => {
  await using flow = await startFlow([calling({ id: "call_w", name: "weather", json: '{"town":"Bern"}' })]);
  const { choices } = await connect(flow).chat.completions.create({ model, messages, tools: [weather] });
  const [call] = choices[0]?.message.tool_calls ?? [];
  assert.ok(call?.type === "function");
  assert.deepEqual(JSON.parse(call.function.arguments), { town: "Bern" });
});

test("openai: a chat without a session continues with what the agent's own tools found", async () => {
  await using flow = await withNote([readNote, both, saying("thanks"), saying("bye")]);
  const { chat } = connect(flow);
  const first = await chat.completions.create({ model, messages, tools: [weather] });
  const { message } = first.choices[0]!;
  assert.equal(message.tool_calls?.length, 1);
  const result = { role: "tool" as const, tool_call_id: "call_w", content: "sunny in Bern" };
  const sent = [...messages, message, result];
  const second = await chat.completions.create({ model, messages: sent, tools: [weather] });
  assert.equal(second.choices[0]?.message.content, "thanks");
  const heard = JSON.stringify(flow.models.requests[2]!.body.messages);
  assert.equal(heard.split("the note says 42").length - 1, 2);
  assert.match(heard, /sunny in Bern/);
  const more = [...sent, second.choices[0]!.message, { role: "user" as const, content: "And now?" }];
  await chat.completions.create({ model, messages: more, tools: [weather] });
  assert.match(JSON.stringify(flow.models.requests[3]!.body.messages), /the note says 42.*thanks.*And now/);
});

test("openai: another conversation with the same call ids does not get what the agent's own tools found", async () => {
  await using flow = await withNote([both, saying("ok")]);
  const { chat } = connect(flow);
  const first = await chat.completions.create({ model, messages, tools: [weather] });
  const other = [{ role: "user" as const, content: "Another question?" }];
  const result = { role: "tool" as const, tool_call_id: "call_w", content: "sunny" };
  const sent = [...other, first.choices[0]!.message, result];
  await chat.completions.create({ model, messages: sent, tools: [weather] });
  assert.doesNotMatch(JSON.stringify(flow.models.requests[1]!.body.messages), /the note says 42/);
});

test("openai: a conversation gets no calls from a run of another key", async () => {
  const keys = [
    { key: KEY, name: "mine", scopes: ["chat"] },
    { key: OTHER_KEY, name: "other", scopes: ["chat"] },
  ];
  await using flow = await withNote([both, saying("ok")], {}, keys);
  const first = await connect(flow).chat.completions.create({ model, messages, tools: [weather] });
  const result = { role: "tool" as const, tool_call_id: "call_w", content: "sunny" };
  const sent = [...messages, first.choices[0]!.message, result];
  const other = new OpenAI({ baseURL: `${flow.service.url}/v1`, apiKey: OTHER_KEY, maxRetries: 0 });
  await other.chat.completions.create({ model, messages: sent, tools: [weather] });
  assert.doesNotMatch(JSON.stringify(flow.models.requests[1]!.body.messages), /the note says 42/);
});

test("openai: responses that are not stored continue with the items of the agent's own calls", async () => {
  await using flow = await withNote([readNote, callWeather, saying("thanks")]);
  const { responses } = connect(flow);
  const asked = { model, tools: [flat], store: false };
  const first = await responses.create({ ...asked, input: "How is the weather?" });
  assert.deepEqual(
    first.output.map(({ type }) => type),
    ["mcp_call", "function_call"],
  );
  const input = [
    { role: "user", content: "How is the weather?" },
    ...first.output,
    { type: "function_call_output", call_id: "call_w", output: "sunny" },
  ] as ResponseInputItem[];
  assert.equal((await responses.create({ ...asked, input })).output_text, "thanks");
  const { messages: heard } = flow.models.requests[2]!.body;
  assert.deepEqual(
    heard.slice(-4).map(({ role }) => role),
    ["assistant", "tool", "assistant", "tool"],
  );
  assert.match(JSON.stringify(heard), /the note says 42/);
});

test("openai: an image in the output of a function reaches the model", async () => {
  await using flow = await startFlow([callWeather, saying("a pixel")]);
  const { responses } = connect(flow);
  const first = await responses.create({ model, tools: [flat], input: "How is the weather?" });
  const pixel =
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const second = await responses.create({
    model,
    tools: [flat],
    previous_response_id: first.id,
    input: [
      {
        type: "function_call_output",
        call_id: "call_w",
        output: [
          { type: "input_text", text: "as seen" },
          { type: "input_image", image_url: pixel, detail: "auto" },
        ],
      },
    ],
  });
  assert.equal(second.output_text, "a pixel");
  const { messages: heard } = flow.models.requests[1]!.body;
  const [result, image] = heard.slice(-2);
  assert.deepEqual([result?.["role"], result?.["content"]], ["tool", "as seen"]);
  assert.match(JSON.stringify(image), /image\/png;base64/);
});

test("openai: reasoning is in the message, as it is in the stream", async () => {
  const reply: ModelReply = {
    pieces: [{ reasoning: "hm, " }, { reasoning: "so" }, { text: "yes" }, { finish: "stop" }],
  };
  await using flow = await startFlow([reply, reply]);
  const { chat } = connect(flow);
  const { choices } = await chat.completions.create({ model, messages });
  assert.deepEqual(choices[0]?.message, {
    role: "assistant",
    content: "yes",
    refusal: null,
    reasoning_content: "hm, so",
  } as never);
  const stream = await chat.completions.create({ model, messages, stream: true });
  let streamed = "";
  for await (const chunk of stream) {
    const delta = chunk.choices[0]?.delta as { readonly reasoning_content?: string };
    streamed += delta.reasoning_content ?? "";
  }
  assert.equal(streamed, "hm, so");
});

for (const stream of [false, true]) {
  test(`openai: what a provider refuses is asked for once${stream ? ", and a stream of it is an error status" : ""}`, async () => {
    const reply: ModelReply = { status: 400, body: '{"error":{"message":"no such parameter"}}' };
    await using flow = await startFlow([reply, reply, reply]);
    const client = new OpenAI({ baseURL: `${flow.service.url}/v1`, apiKey: KEY });
    for (const request of [
      () => client.chat.completions.create({ model, messages, stream }),
      () => client.responses.create({ model, input: "hi", stream }),
    ]) {
      await assert.rejects(request(), (error: APIError) => {
        assert.equal(error.status, 502);
        assert.match(error.message, /The provider local refused the request \(400\)/);
        assert.equal(error.headers?.get("x-should-retry"), "false");
        return true;
      });
    }
    assert.equal(flow.models.requests.length, 2);
  });
}

test("openai: the time that a provider asks to wait reaches the client of a stream", async () => {
  const reply: ModelReply = { status: 429, headers: { "retry-after": "60" }, body: "{}" };
  await using flow = await startFlow([reply]);
  const asked = { model, messages, stream: true as const };
  await assert.rejects(connect(flow).chat.completions.create(asked), (error: APIError) => {
    assert.equal(error.headers?.get("retry-after"), "60");
    return true;
  });
});

test("openai: a last message of the assistant is continued", async () => {
  await using flow = await startFlow([saying(" and three")]);
  const begun = { role: "assistant" as const, content: "one, two" };
  const { choices } = await connect(flow).chat.completions.create({ model, messages: [...messages, begun] });
  assert.equal(choices[0]?.message.content, " and three");
  assert.match(JSON.stringify(flow.models.requests[0]!.body.messages.at(-1)), /Continue your last answer/);
});
