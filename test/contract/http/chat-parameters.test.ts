/** Parameters of a chat that the server refuses, each with what is wrong. */
import assert from "node:assert/strict";
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";

const hi = { model: "agentd", messages: [{ role: "user", content: "hi" }] };
const tool = (name: string) => ({ type: "function", function: { name } });

for (const [title, body, code, param] of [
  [
    "an unknown response format",
    { ...hi, response_format: { type: "grammar" } },
    "unsupported_parameter",
    "response_format.type",
  ],
  [
    "a response format without its schema",
    { ...hi, response_format: { type: "json_schema" } },
    "missing_required_parameter",
    "response_format.json_schema",
  ],
  [
    "a response format with a broken schema",
    {
      ...hi,
      response_format: {
        type: "json_schema",
        json_schema: { name: "a", schema: { type: "object", properties: { a: { pattern: "(" } } } },
      },
    },
    "invalid_request",
    "response_format",
  ],
  ["a hosted tool", { ...hi, tools: [{ type: "web_search" }] }, "unsupported_parameter", "tools[0].type"],
  [
    "legacy functions",
    { ...hi, functions: [{ name: "a", parameters: {} }] },
    "unsupported_parameter",
    "functions",
  ],
  [
    "a result whose call is not there",
    { messages: [hi.messages[0], { role: "tool", tool_call_id: "call_x", content: "1" }] },
    "invalid_request",
    "messages[1].tool_call_id",
  ],
  [
    "allowed tools that tools does not list",
    {
      ...hi,
      tools: [tool("a")],
      tool_choice: {
        type: "allowed_tools",
        allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "b" } }] },
      },
    },
    "invalid_request",
    "tool_choice",
  ],
] as const) {
  scenario(
    "createChatCompletion",
    400,
    { title: `${title} is refused with its error code` },
    async (service) => {
      const error = await assertError(await service.chat(body), 400, code);
      assert.equal(error.param, param);
      await assertHealthy(service);
    },
  );
}
