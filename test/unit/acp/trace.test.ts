import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnyMessage } from "@agentclientprotocol/sdk/unstable";
import { toTraceEntry } from "../../../src/acp/wire/trace.ts";

test("the secrets of client servers never reach the trace", () => {
  const secret = "hunter2hunter2";
  const text = JSON.stringify(
    toTraceEntry({
      jsonrpc: "2.0",
      id: 1,
      method: "session/new",
      params: {
        cwd: "/work",
        mcpServers: [
          { name: "a", command: "a", args: [], env: [{ name: "TOKEN", value: secret }] },
          { type: "http", name: "b", url: "http://b", headers: [{ name: "X-Key", value: secret }] },
          { name: "odd", env: { TOKEN: secret } },
          { name: "odder", env: [secret] },
        ],
      },
    }),
  );
  assert.doesNotMatch(text, /hunter2/);
  assert.match(text, /TOKEN.*redacted/);
  assert.match(text, /X-Key/);
});

test("a secret across the cut is redacted", () => {
  const key = `sk-${"a1".repeat(60)}`;
  for (let before = 1_860; before <= 2_005; before += 5) {
    const text = `${"x".repeat(before)} ${key} ${"y".repeat(9_000)}`;
    const message: AnyMessage = { jsonrpc: "2.0", method: "m", params: { text } };
    assert.doesNotMatch(JSON.stringify(toTraceEntry(message)), /sk-a1/);
  }
});

test("long, wide and deep values are shortened", () => {
  let deep: unknown = "end";
  for (let at = 0; at < 500; at += 1) deep = [deep];
  const params = { text: "x".repeat(1e6), list: Array.from({ length: 1e4 }, () => "item"), deep };
  const text = JSON.stringify(toTraceEntry({ jsonrpc: "2.0", method: "m", params }));
  assert.ok(text.length < 4_000, String(text.length));
  assert.match(text, /1000000 characters/);
  assert.match(text, /9950 more/);
});
