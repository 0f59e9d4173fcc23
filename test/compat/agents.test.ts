/** The agents package of OpenAI as a client of the server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import type { ScriptState } from "../../src/agent/engines/scripted.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

setTracingDisabled(true);

const runnerFor = (service: TestService, useResponses: boolean) => {
  const openAIClient = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: KEY, maxRetries: 0 });
  return new Runner({
    modelProvider: new OpenAIProvider({ openAIClient: openAIClient as never, useResponses }),
    tracingDisabled: true,
  });
};

const weather = tool({
  name: "weather",
  description: "The weather",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city} is sunny`,
});

function callsWeather({ messages, tools }: ScriptState) {
  const answer = messages.findLast((message) => message.role === "tool" && message.status === "ok");
  if (answer?.role === "tool") return { text: `it says ${answer.text}` };
  return tools.includes("weather")
    ? { calls: [{ tool: "weather", input: { city: "Bern" } }] }
    : { text: "no tool" };
}

for (const useResponses of [false, true]) {
  const name = useResponses ? "responses" : "chat completions";

  test(`@openai/agents over ${name}: a run, whole and streamed`, async () => {
    await using service = await startTestService({ script: () => ({ text: "hello there" }) });
    const agent = new Agent({ name: "a", model: "agentd", instructions: "be nice" });
    const runner = runnerFor(service, useResponses);
    assert.equal((await runner.run(agent, "hi")).finalOutput, "hello there");
    const streamed = await runner.run(agent, "hi", { stream: true });
    let text = "";
    for await (const part of streamed.toTextStream()) text += part;
    await streamed.completed;
    assert.equal(text, "hello there");
  });

  test(`@openai/agents over ${name}: its tools are called here and answered there`, async () => {
    await using service = await startTestService({ script: callsWeather });
    const agent = new Agent({ name: "a", model: "agentd", tools: [weather] });
    const { finalOutput } = await runnerFor(service, useResponses).run(agent, "weather?");
    assert.equal(finalOutput, "it says Bern is sunny");
  });

  test(`@openai/agents over ${name}: the agent's own tools do not disturb`, async () => {
    await using service = await startTestService({
      script: ({ step }) =>
        step === 0 ? { calls: [{ tool: "read_file", input: { path: "no" } }] } : { text: "done" },
    });
    const agent = new Agent({ name: "a", model: "agentd" });
    assert.equal((await runnerFor(service, useResponses).run(agent, "hi")).finalOutput, "done");
  });
}
