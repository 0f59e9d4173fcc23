import assert from "node:assert/strict";
import { test } from "node:test";
import { completed, queued, request, started, whole } from "../../harness/response-facts.ts";

test("all 31 fields are present, with the defaults of the format", () => {
  const { agent: _, ...response } = whole([queued, started, completed]);
  assert.deepEqual(response, {
    id: "resp_01abc",
    object: "response",
    created_at: 1000,
    completed_at: 1002,
    status: "completed",
    incomplete_details: null,
    model: "agentd",
    previous_response_id: null,
    instructions: null,
    output: [],
    error: null,
    tools: [],
    tool_choice: "auto",
    truncation: "disabled",
    parallel_tool_calls: true,
    text: { format: { type: "text" } },
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    temperature: 1,
    reasoning: null,
    usage: response.usage,
    max_output_tokens: null,
    max_tool_calls: null,
    store: true,
    background: false,
    service_tier: "default",
    metadata: {},
    safety_identifier: null,
    prompt_cache_key: null,
  });
  assert.equal(Object.keys(response).length, 31);
});

test("the response repeats the fields of its request", () => {
  const body = {
    model: "gpt-4o",
    instructions: "Be brief.",
    conversation: "trip",
    tools: [{ type: "function" as const, name: "weather" }],
    tool_choice: { type: "function" as const, name: "weather" },
    truncation: "auto" as const,
    parallel_tool_calls: false,
    temperature: 0,
    top_p: 0.5,
    reasoning: { effort: "high", summary: "fanciful" },
    max_output_tokens: 9,
    max_tool_calls: 3,
    store: false,
    metadata: { a: "b" },
    user: "u",
    safety_identifier: "s",
    prompt_cache_key: "k",
  };
  const response = whole([queued, started, completed], request(body));
  const { reasoning: _, tools, conversation, ...same } = body;
  assert.deepEqual(response.reasoning, { effort: "high", summary: null });
  assert.deepEqual(response.conversation, { id: conversation });
  assert.deepEqual(response.tools, [{ ...tools[0], description: null, parameters: null, strict: null }]);
  for (const [name, value] of Object.entries(same)) {
    assert.deepEqual(response[name as keyof typeof response], value, name);
  }
});
