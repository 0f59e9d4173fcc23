/** Tools of the client's, through the whole service, with a model server of this machine for a provider. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { calling, saying } from "../harness/openai-server.ts";
import { startFlow } from "../harness/provider-flow.ts";

const hi = (content: string) => ({ messages: [{ role: "user", content }] });
const session = { "x-agent-session-id": "flow" };

const weather = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

test("a tool of the client's: offered to the model, handed over, and its answer given to the model", async () => {
  const call = { id: "c1", name: "weather", json: '{"city":"Bern"}' };
  await using flow = await startFlow([calling(call), saying("it rains")]);
  const { service, models } = flow;
  const first = await service.chat(
    { ...hi("weather?"), tools: [weather], tool_choice: "required" },
    { headers: session },
  );
  const { choices } = await first.json();
  assert.equal(choices[0].finish_reason, "tool_calls");
  const [asked] = choices[0].message.tool_calls;
  assert.deepEqual(JSON.parse(asked.function.arguments), { city: "Bern" });
  assert.equal(models.requests[0]!.body["tool_choice"], "required");
  assert.ok(models.requests[0]!.body.tools!.some((tool) => tool.function["name"] === "weather"));
  const output = { role: "tool", tool_call_id: asked.id, content: "rain" };
  const second = await service.chat({ messages: [output], tools: [weather] }, { headers: session });
  assert.equal((await second.json()).choices[0].message.content, "it rains");
  const { messages } = models.requests[1]!.body;
  const answers = messages.filter(({ role }) => role === "tool");
  assert.deepEqual(
    answers.map(({ tool_call_id, content }) => [tool_call_id, content]),
    [[asked.id, "rain"]],
  );
  assert.equal(models.requests[1]!.body["tool_choice"], "auto");
});

test("tools of the agent and of the client in one step: the agent's run, then the client is asked", async () => {
  const own = { id: "c1", name: "terminal", json: '{"command":"echo mine"}' };
  const theirs = { id: "c2", name: "weather", json: "{}" };
  await using flow = await startFlow([calling(own, theirs), saying("done")]);
  const first = await flow.service.chat({ ...hi("go"), tools: [weather] }, { headers: session });
  const { choices } = await first.json();
  assert.deepEqual(
    choices[0].message.tool_calls.map((each: { function: { name: string } }) => each.function.name),
    ["weather"],
  );
  const output = { role: "tool", tool_call_id: choices[0].message.tool_calls[0].id, content: "sun" };
  await (await flow.service.chat({ messages: [output], tools: [weather] }, { headers: session })).json();
  const answers = flow.models.requests[1]!.body.messages.filter(({ role }) => role === "tool");
  assert.match(String(answers[0]!["content"]), /mine/);
  assert.equal(answers[1]!["content"], "sun");
});
