/** JSON that is nested so deep that what goes down level by level would fall over. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertHealthy } from "../../harness/scenario.ts";
import { startTestService } from "../../harness/service.ts";

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
const chat = '"messages": [{"role": "user", "content": "hi \\"[[ \\\\"}]';
const declared = (schema: string) => `"name": "look", "parameters": {"properties": {"a": ${schema}}}`;

const BODIES: readonly (readonly [string, string, string])[] = [
  ["a member that is ignored", "/v1/chat/completions", `{${chat}, "more": ${deep(50_000)}}`],
  [
    "the schema of a tool of a chat",
    "/v1/chat/completions",
    `{${chat}, "tools": [{"type": "function", "function": {${declared(deep(50_000))}}}]}`,
  ],
  [
    "the schema of a tool of a response",
    "/v1/responses",
    `{"input": "hi", "tools": [{"type": "function", ${declared(deep(50_000))}}]}`,
  ],
  [
    "an item of a response",
    "/v1/responses",
    `{"input": [{"role": "user", "content": "hi", "x": ${deep(50_000)}}]}`,
  ],
  ["an item of a run", "/v1/runs", `{"input": [{"role": "user", "content": "hi", "x": ${deep(50_000)}}]}`],
];

test("deep nesting is refused anywhere, also with an Idempotency-Key", async () => {
  await using service = await startTestService();
  for (const [where, path, body] of BODIES) {
    for (const key of [[], [["idempotency-key", "deep"]]]) {
      const response = await service.request(path, {
        method: "POST",
        headers: { "content-type": "application/json", ...Object.fromEntries(key) },
        body,
      });
      const error = await assertError(response, 400, "invalid_request");
      assert.match(error.message, /nested/, where);
    }
  }
  await assertHealthy(service);
});

test("ordinary nesting passes, and brackets in strings do not count", async () => {
  await using service = await startTestService();
  const text = JSON.stringify(`${"[{".repeat(1_000)}\\"`);
  const body = `{"messages": [{"role": "user", "content": ${text}}], "more": ${deep(255)}}`;
  const response = await service.request("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  assert.equal(response.status, 200, await response.text());
});

test("deep arguments of an earlier call are kept as text", async () => {
  await using service = await startTestService();
  const call = { id: "c1", type: "function", function: { name: "look", arguments: deep(50_000) } };
  const messages = [
    { role: "user", content: "look" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "c1", content: "seen" },
  ];
  const response = await service.chat({ messages });
  assert.equal(response.status, 200, await response.text());
  await assertHealthy(service);
});
