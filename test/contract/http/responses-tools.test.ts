/** Tools of the client in the responses format: the agent asks for a call, the client answers it in the next request. */
import assert from "node:assert/strict";
import type { ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { checkStream, eventsOf, outputText, respond, responseOf } from "../../harness/responses.ts";
import { assertError, scenario } from "../../harness/scenario.ts";

const CREATE = "createResponse";
const weather = {
  type: "function",
  name: "weather",
  description: "How it is outside.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const ask = { input: "how is it outside?", tools: [weather] };

/** Calls the client's tool for two cities, then says what came of it. */
const script: Script = ({ messages, tools }) => {
  const answers = messages.filter((message) => message.role === "tool" && message.status !== "pending");
  if (answers.length > 0)
    return { text: answers.map((answer) => ("text" in answer ? answer.text : "")).join(", ") };
  const [tool = "none"] = tools.filter((name) => name === "weather");
  return { calls: ["Rome", "Oslo"].map((city) => ({ tool, input: { city } })) };
};

const callsOf = (response: ResponseObject) => response.output.filter((item) => item.type === "function_call");
const outputs = (response: ResponseObject) =>
  callsOf(response).map(({ call_id }, index) => ({
    type: "function_call_output",
    call_id,
    output: `sun ${index}`,
  }));

scenario(
  CREATE,
  200,
  { title: "calls of client tools end the response; their outputs continue it", script },
  async (service) => {
    const first = await responseOf(service, ask);
    assert.equal(first.status, "completed");
    assert.deepEqual(
      callsOf(first).map(({ name, arguments: json, status }) => [name, JSON.parse(json), status]),
      [
        ["weather", { city: "Rome" }, "completed"],
        ["weather", { city: "Oslo" }, "completed"],
      ],
    );
    assert.deepEqual(first.tools, [{ ...weather, strict: null }]);
    const second = await responseOf(service, {
      ...ask,
      input: outputs(first),
      previous_response_id: first.id,
    });
    assert.equal(outputText(second), "sun 0, sun 1");
  },
);

scenario(
  CREATE,
  200,
  { title: "the same as streams, with the calls repeated beside their outputs", script },
  async (service) => {
    const first = checkStream(await eventsOf(await respond(service, { ...ask, stream: true })));
    const input = [...callsOf(first), ...outputs(first)];
    const body = { ...ask, input, previous_response_id: first.id, stream: true };
    assert.equal(outputText(checkStream(await eventsOf(await respond(service, body)))), "sun 0, sun 1");
  },
);

scenario(
  CREATE,
  200,
  { title: "without stored responses, the client sends the calls and their outputs", script },
  async (service) => {
    const first = await responseOf(service, { ...ask, store: false });
    const input = [{ role: "user", content: ask.input }, ...callsOf(first), ...outputs(first)];
    assert.equal(outputText(await responseOf(service, { ...ask, input, store: false })), "sun 0, sun 1");
  },
);

scenario(
  CREATE,
  200,
  { title: "two requests may answer the same calls, in two branches", script },
  async (service) => {
    const first = await responseOf(service, ask);
    const [rome, oslo] = callsOf(first);
    const answerWith = (output: string) => [
      { type: "function_call_output", call_id: rome!.call_id, output },
      {
        type: "function_call_output",
        call_id: oslo!.call_id,
        output: [{ type: "input_text", text: output }],
      },
      { role: "user", content: "and?" },
    ];
    const go = (output: string) =>
      responseOf(service, { ...ask, input: answerWith(output), previous_response_id: first.id });
    assert.equal(outputText(await go("rain")), "rain, rain");
    assert.equal(outputText(await go("snow")), "snow, snow");
  },
);

scenario(
  CREATE,
  200,
  { title: "in a conversation, outputs find their calls, too", script },
  async (service) => {
    const first = await responseOf(service, { ...ask, conversation: "c" });
    const second = await responseOf(service, { ...ask, input: outputs(first), conversation: "c" });
    assert.equal(outputText(second), "sun 0, sun 1");
  },
);

scenario(
  CREATE,
  200,
  { title: "in a session, a client may send the whole conversation, and nothing is repeated", script },
  async (service) => {
    const headers = { "x-agent-session-id": "s" };
    const first = await responseOf(service, ask, { headers });
    const input = [{ role: "user", content: ask.input }, ...callsOf(first), ...outputs(first)];
    const second = await responseOf(service, { ...ask, input }, { headers });
    assert.equal(outputText(second), "sun 0, sun 1");
    const rows = await service.service.store.read
      .selectFrom("messages")
      .select("role")
      .where("session_id", "=", "s")
      .orderBy("seq")
      .execute();
    const roles = rows.map(({ role }) => role).join(" ");
    assert.equal(roles, "user assistant tool tool tool tool assistant");
  },
);

scenario(CREATE, 400, { title: "an output without a known call", script }, async (service) => {
  const first = await responseOf(service, ask);
  const stray = { type: "function_call_output", call_id: "call_none", output: "x" };
  for (const body of [
    { input: [{ role: "user", content: "a" }, stray] },
    { input: [{ role: "user", content: "a" }, stray], previous_response_id: first.id },
  ]) {
    const error = await assertError(await respond(service, body), 400, "invalid_request");
    assert.equal(error.param, "input[1].call_id");
  }
});

scenario(CREATE, 200, { title: "tool_choice none hides the client's tools", script }, async (service) => {
  const response = await responseOf(service, { ...ask, tool_choice: "none" });
  assert.equal(callsOf(response).length, 0);
  assert.equal(response.tool_choice, "none");
});
