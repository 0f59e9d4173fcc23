/** The AI SDK against the responses API: the agent's own tools, and conversations of several turns. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText, type ModelMessage } from "ai";
import { ToolError } from "../../src/agent/tool/tool.ts";
import type { Script } from "../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../harness/agent.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

const connect = ({ url }: TestService) =>
  createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses("agentd");
const tools = [
  testTool(async ({ command }) => {
    if (command === "bad") throw new ToolError("it broke");
    return `did ${command}`;
  }),
];
const script: Script = (state) => ({ reasoning: "hm", ...callsOnce("good", "bad")(state) });

test("AI SDK responses: generateText with calls of the agent's own tools, one of which fails", async () => {
  await using service = await startTestService({ script, tools });
  const result = await generateText({ model: connect(service), prompt: "go", maxRetries: 0 });
  assert.equal(result.text, "ok: did good\nerror: it broke");
  assert.equal(result.finishReason, "stop");
  const results = result.content.filter((part) => part.type === "tool-call" || part.type === "tool-result");
  assert.deepEqual(
    results.map(({ type, providerExecuted }) => [type, providerExecuted]),
    [
      ["tool-call", true],
      ["tool-result", true],
      ["tool-call", true],
      ["tool-result", true],
    ],
  );
});

test("AI SDK responses: streamText with calls of the agent's own tools, one of which fails", async () => {
  await using service = await startTestService({ script, tools });
  const result = streamText({ model: connect(service), prompt: "go", maxRetries: 0 });
  const types: string[] = [];
  for await (const part of result.fullStream) types.push(part.type);
  assert.ok(!types.includes("error"), types.join(" "));
  assert.equal(types.filter((type) => type === "tool-result").length, 2);
  assert.equal(await result.text, "ok: did good\nerror: it broke");
});

test("AI SDK responses: the next turn names the items of the last instead of sending them", async () => {
  await using service = await startTestService({
    tools,
    script: (state) =>
      state.user === "go"
        ? script(state)
        : {
            text: state.messages
              .map((message) => (message.role === "user" ? message.text : message.role))
              .join(" "),
          },
  });
  const model = connect(service);
  const messages: ModelMessage[] = [{ role: "user", content: "go" }];
  const first = await generateText({ model, messages, maxRetries: 0 });
  messages.push(...first.response.messages, { role: "user", content: "and?" });
  const second = await generateText({ model, messages, maxRetries: 0 });
  assert.equal(second.text, "go assistant tool assistant tool assistant and?");
  const byId = await generateText({
    model,
    prompt: "more",
    maxRetries: 0,
    providerOptions: { openai: { previousResponseId: first.response.id } },
  });
  assert.match(byId.text, /^go assistant tool tool assistant more$/);
});
