/** Structured output with the AI SDK and the agents package of OpenAI, over a model server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool, type LanguageModel } from "ai";
import OpenAI from "openai";
import { z } from "zod";
import { calling, saying } from "../harness/openai-server.ts";
import { startFlow, type Flow } from "../harness/provider-flow.ts";
import { KEY } from "../harness/service.ts";

setTracingDisabled(true);

const baseURL = ({ service }: Flow) => `${service.url}/v1`;
const providers: Readonly<Record<string, (flow: Flow) => LanguageModel>> = {
  "openai chat": (flow) => createOpenAI({ baseURL: baseURL(flow), apiKey: KEY }).chat("agentd"),
  "openai responses": (flow) => createOpenAI({ baseURL: baseURL(flow), apiKey: KEY }).responses("agentd"),
  "openai-compatible": (flow) =>
    createOpenAICompatible({ name: "agentd", baseURL: baseURL(flow), apiKey: KEY })("agentd"),
  "openai-compatible with schemas": (flow) =>
    createOpenAICompatible({
      name: "agentd",
      baseURL: baseURL(flow),
      apiKey: KEY,
      supportsStructuredOutputs: true,
    })("agentd"),
};
const place = { city: "Bern", country: "Switzerland" };
const json = JSON.stringify(place);
const output = Output.object({ schema: z.object({ city: z.string(), country: z.string() }) });
const callWeather = calling({ id: "call_w", name: "weather", json: '{"city":"Bern"}' });

for (const [name, connect] of Object.entries(providers)) {
  test(`AI SDK, ${name}: an object, whole, streamed, and after a tool`, async () => {
    await using flow = await startFlow([
      saying(json),
      saying(json.slice(0, 8), json.slice(8)),
      callWeather,
      saying(json),
    ]);
    const asked = { model: connect(flow), prompt: "Where is Bern?", output, maxRetries: 0 };
    assert.deepEqual((await generateText(asked)).output, place);
    const streamed = streamText(asked);
    let last: unknown;
    for await (const partial of streamed.partialOutputStream) last = partial;
    assert.deepEqual(last, place);
    const weather = tool({
      description: "The weather",
      inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
      execute: async ({ city }) => `${city} is sunny`,
    });
    const steps = await generateText({ ...asked, tools: { weather }, stopWhen: stepCountIs(3) });
    assert.deepEqual(steps.output, place);
  });
}

for (const useResponses of [false, true]) {
  const name = useResponses ? "responses" : "chat completions";
  test(`@openai/agents over ${name}: an agent with an output type`, async () => {
    await using flow = await startFlow([callWeather, saying(json)]);
    const openAIClient = new OpenAI({ baseURL: baseURL(flow), apiKey: KEY, maxRetries: 0 });
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: openAIClient as never, useResponses }),
      tracingDisabled: true,
    });
    const weather = agentTool({
      name: "weather",
      description: "The weather",
      parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => `${city} is sunny`,
    });
    const outputType = z.object({ city: z.string(), country: z.string() });
    const agent = new Agent({
      name: "a",
      model: "agentd",
      instructions: "be brief",
      outputType,
      tools: [weather],
    });
    const result = await runner.run(agent, "Where is Bern?");
    assert.deepEqual(result.finalOutput, place);
  });
}
