/** The AI SDK's providers as clients of the server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool, type LanguageModel } from "ai";
import type { ScriptState } from "../../src/agent/engines/scripted.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";

const providers: Readonly<Record<string, (service: TestService) => LanguageModel>> = {
  "openai chat": ({ url }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat("agentd"),
  "openai responses": ({ url }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses("agentd"),
  "openai-compatible": ({ url }) =>
    createOpenAICompatible({ name: "agentd", baseURL: `${url}/v1`, apiKey: KEY, includeUsage: true })(
      "agentd",
    ),
};

const weather = tool({
  description: "The weather",
  inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
  execute: async ({ city }) => `${city} is sunny`,
});

function callsWeather({ messages }: ScriptState) {
  const answer = messages.findLast((message) => message.role === "tool" && message.status === "ok");
  if (answer?.role === "tool") return { text: `it says ${answer.text}` };
  return { calls: [{ tool: "weather", input: { city: "Bern" } }] };
}

const quiet = { maxRetries: 0, onError: () => {} };

for (const [name, connect] of Object.entries(providers)) {
  test(`AI SDK, ${name}: generateText`, async () => {
    await using service = await startTestService({ script: () => ({ reasoning: "hm", text: "hello" }) });
    const { text, finishReason, usage, warnings } = await generateText({
      model: connect(service),
      prompt: "hi",
      maxRetries: 0,
    });
    assert.equal(text, "hello");
    assert.equal(finishReason, "stop");
    assert.ok((usage.totalTokens ?? 0) > 0);
    assert.deepEqual(warnings ?? [], []);
  });

  test(`AI SDK, ${name}: streamText`, async () => {
    await using service = await startTestService({ script: () => ({ text: ["one ", "two ", "three"] }) });
    const result = streamText({ model: connect(service), prompt: "hi", ...quiet });
    let text = "";
    for await (const delta of result.textStream) text += delta;
    assert.equal(text, "one two three");
    assert.equal(await result.finishReason, "stop");
    assert.ok(((await result.usage).totalTokens ?? 0) > 0);
  });

  test(`AI SDK, ${name}: a call of the agent's own tool does not disturb`, async () => {
    await using service = await startTestService({
      script: ({ step }) =>
        step === 0
          ? { text: "reading", calls: [{ tool: "read_file", input: { path: "no" } }] }
          : { text: "done" },
    });
    const whole = await generateText({ model: connect(service), prompt: "hi", maxRetries: 0 });
    assert.match(whole.text, /done$/);
    const result = streamText({ model: connect(service), prompt: "hi", ...quiet });
    let text = "";
    for await (const delta of result.textStream) text += delta;
    assert.match(text, /done$/);
  });

  test(`AI SDK, ${name}: a tool of the client's is called and answered`, async () => {
    await using service = await startTestService({ script: callsWeather });
    const options = {
      model: connect(service),
      prompt: "weather?",
      tools: { weather },
      stopWhen: stepCountIs(3),
    };
    const { text, steps } = await generateText({ ...options, maxRetries: 0 });
    assert.equal(text, "it says Bern is sunny");
    assert.equal(steps.length, 2);
    const result = streamText({ ...options, ...quiet });
    let streamed = "";
    for await (const delta of result.textStream) streamed += delta;
    assert.equal(streamed, "it says Bern is sunny");
  });

  test(`AI SDK, ${name}: a failure is an error with its words`, async () => {
    await using service = await startTestService({
      script: () => ({ text: "", error: { code: "provider_error", message: "it hung up" } }),
    });
    const failing = generateText({ model: connect(service), prompt: "hi", maxRetries: 0 });
    await assert.rejects(failing, /it hung up/);
    const result = streamText({ model: connect(service), prompt: "hi", ...quiet });
    const parts: unknown[] = [];
    for await (const part of result.fullStream) if (part.type === "error") parts.push(part.error);
    assert.match(
      JSON.stringify(parts.map((part) => (part instanceof Error ? part.message : part))),
      /it hung up/,
    );
  });
}
