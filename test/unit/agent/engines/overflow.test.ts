import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens } from "../../../../src/agent/engines/turn.ts";
import { isContextTooLong } from "../../../../src/agent/engines/provider-error.ts";

const refusal = (statusCode: number | undefined, responseBody: string): Error =>
  Object.assign(new Error("Bad Request"), { statusCode, responseBody });

const tooLong: readonly (readonly [string, number, string])[] = [
  ["OpenAI", 400, '{"error":{"code":"context_length_exceeded","message":"Your input exceeds."}}'],
  ["Anthropic", 400, '{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'],
  [
    "Anthropic with its output",
    400,
    '{"error":{"message":"input length and `max_tokens` exceed context limit: 1 + 2 > 2"}}',
  ],
  ["Google", 400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."],
  ["vLLM", 400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"],
  ["llama.cpp", 400, '{"error":{"type":"exceed_context_size_error"}}'],
  ["LM Studio", 400, "The number of tokens to keep is greater than the context length"],
  ["a server that refuses the size of the body", 413, "Prompt exceeds the context window of the model"],
];

for (const [who, status, body] of tooLong) {
  test(`the refusal of ${who} is recognised as a context that is too long`, () => {
    assert.equal(isContextTooLong(refusal(status, body)), true);
  });
}

const others: readonly (readonly [string, Error])[] = [
  ["a bad key that quotes a prompt", refusal(401, "prompt is too long")],
  ["a rate limit", refusal(429, "Request too large: tokens per minute (TPM): limit 6000")],
  ["a failure", refusal(500, "context_length_exceeded")],
  ["a body that is too large", refusal(413, "Request Entity Too Large")],
  ["another problem of the request", refusal(400, "max_tokens is too large: the model supports 4096")],
  ["an image that is too large", refusal(400, "image exceeds 5 MB maximum")],
  ["a broken connection", new TypeError("fetch failed")],
];

for (const [title, error] of others) {
  test(`${title} is not a context that is too long`, () => {
    assert.equal(isContextTooLong(error), false);
  });
}

test("an image counts 1,500 tokens, whatever its size, and text a quarter of its characters", () => {
  const picture = { type: "image", mediaType: "image/png", data: "A".repeat(400_000) } as const;
  const plain = estimateTokens([{ role: "user", text: "x".repeat(400) }]);
  assert.ok(plain >= 100 && plain < 110, String(plain));
  const seen = estimateTokens([{ role: "user", text: "", attachments: [picture] }]);
  assert.ok(seen >= 1_500 && seen < 1_510, String(seen));
});
