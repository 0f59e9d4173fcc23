import assert from "node:assert/strict";
import type { ScriptState } from "../../../src/agent/engines/scripted.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { readData } from "../../harness/sse.ts";

const CHAT = "createChatCompletion";
const weather = {
  type: "function",
  function: { name: "weather", description: "The weather", parameters: { type: "object", properties: {} } },
};
const ask = { messages: [{ role: "user", content: "how is it outside?" }], tools: [weather] };

/** Calls the client's tool, then says what came of it. */
function callWeather({ messages, tools }: ScriptState) {
  const answer = messages.findLast((message) => message.role === "tool");
  if (answer?.role === "tool" && answer.status !== "pending") return { text: `it is ${answer.text}` };
  return {
    text: "let me see",
    calls: [{ tool: tools.includes("weather") ? "weather" : "none", input: { at: "home" } }],
  };
}

interface ToolCall {
  readonly id: string;
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

scenario(
  CHAT,
  200,
  { title: "a call of a client tool ends the answer with the call", script: callWeather },
  async (service) => {
    const response = await service.chat(ask);
    const { choices, usage } = await response.json();
    assert.equal(choices[0].finish_reason, "tool_calls");
    assert.equal(choices[0].message.content, "let me see");
    const [call] = choices[0].message.tool_calls as ToolCall[];
    assert.equal(call!.type, "function");
    assert.equal(call!.function.name, "weather");
    assert.deepEqual(JSON.parse(call!.function.arguments), { at: "home" });
    assert.ok(usage.total_tokens > 0);
    const run = await (await service.request(`/v1/runs/${response.headers.get("x-agent-run-id")}`)).json();
    assert.equal(run.status, "completed");
    assert.equal(run.output, null);
    assert.equal(run.required_action.type, "submit_tool_outputs");
    assert.equal(run.required_action.tool_calls[0].id, call!.id);
    const events = await (await service.request(`/v1/runs/${run.run_id}/events`)).text();
    assert.equal(events.split("event: tool.requested").length, 2);
    assert.match(events, /"event":"tool.requested"[^\n]*"tool":"weather"/);
  },
);

scenario(
  CHAT,
  200,
  { title: "the client continues with the tool's output, without a session", script: callWeather },
  async (service) => {
    const first = await (await service.chat(ask)).json();
    const message = first.choices[0].message;
    const output = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "raining" };
    const second = await service.chat({ ...ask, messages: [...ask.messages, message, output] });
    const { choices } = await second.json();
    assert.equal(choices[0].finish_reason, "stop");
    assert.equal(choices[0].message.content, "it is raining");
  },
);

scenario(
  CHAT,
  200,
  { title: "in a session, the client continues with only the tool's output", script: callWeather },
  async (service) => {
    const headers = { "x-agent-session-id": "tools" };
    const first = await (await service.chat(ask, { headers })).json();
    const output = {
      role: "tool",
      tool_call_id: first.choices[0].message.tool_calls[0].id,
      content: "sunny",
    };
    const second = await service.chat({ messages: [output], tools: [weather] }, { headers });
    assert.equal((await second.json()).choices[0].message.content, "it is sunny");
  },
);

scenario(
  CHAT,
  200,
  {
    title: "a streamed call has its index, id, name and arguments, and the reason tool_calls",
    script: callWeather,
  },
  async (service) => {
    const chunks = (await readData(await service.chat({ ...ask, stream: true }))) as {
      choices?: { delta: { tool_calls?: (ToolCall & { index: number })[] }; finish_reason: string | null }[];
    }[];
    const calls = chunks.flatMap((chunk) => chunk.choices?.[0]?.delta.tool_calls ?? []);
    assert.equal(calls.length, 1);
    assert.equal(calls[0]!.index, 0);
    assert.match(calls[0]!.id, /^call_/);
    assert.equal(calls[0]!.function.name, "weather");
    assert.ok(chunks.some((chunk) => chunk.choices?.[0]?.finish_reason === "tool_calls"));
  },
);

scenario(
  CHAT,
  200,
  {
    title: "a client tool replaces the agent's tool of the same name; tool_choice none hides it",
    script: ({ tools }) => ({ text: tools.join(",") }),
  },
  async (service) => {
    const named = (name: string) => [{ type: "function", function: { name } }];
    const list = async (body: object) => {
      const answer = await (await service.chat({ ...ask, ...body })).json();
      return (answer.choices[0].message.content as string).split(",");
    };
    const own = await list({ tools: [] });
    assert.ok(own.includes("read_file"));
    const replaced = await list({ tools: named("read_file") });
    assert.deepEqual([...replaced].sort(), [...own].sort());
    assert.ok(!(await list({ tool_choice: "none" })).includes("weather"));
  },
);

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

scenario(
  CHAT,
  200,
  {
    title: "images and files are attached to the prompt, typed by their content",
    script: ({ messages }) => {
      const last = messages.at(-1);
      const attachments = last?.role === "user" ? (last.attachments ?? []) : [];
      return {
        text: JSON.stringify(attachments.map(({ type, mediaType, name }) => [type, mediaType, name])),
      };
    },
  },
  async (service) => {
    const content = [
      { type: "text", text: "look" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}`, detail: "low" } },
      { type: "input_image", image_url: `data:image/jpeg;base64,${PIXEL}` },
      { type: "file", file: { filename: "a.txt", file_data: "data:text/plain;base64,aGk=" } },
      { type: "input_file", filename: "b.pdf", file_data: btoa("%PDF-1.7\n1 0 obj") },
    ];
    const answer = await (await service.chat({ messages: [{ role: "user", content }] })).json();
    assert.deepEqual(JSON.parse(answer.choices[0].message.content), [
      ["image", "image/png", null],
      ["image", "image/png", null],
      ["file", "text/plain", "a.txt"],
      ["file", "application/pdf", "b.pdf"],
    ]);
  },
);

scenario(CHAT, 400, { title: "a request with too many attachments is refused" }, async (service) => {
  const part = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
  const content = Array.from({ length: 33 }, () => part);
  const response = await service.chat({ messages: [{ role: "user", content }] });
  const error = await assertError(response, 400, "invalid_content_part");
  assert.equal(error.param, "messages[0].content[32].image_url.url");
});
