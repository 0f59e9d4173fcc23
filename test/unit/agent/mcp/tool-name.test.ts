import assert from "node:assert/strict";
import { test } from "node:test";
import { toolName } from "../../../../src/agent/mcp/servers.ts";

test("a tool's name has at most 64 characters that every provider accepts, and is stable", () => {
  const none = new Set<string>();
  assert.equal(toolName("git", "log", none), "mcp_git_log");
  assert.equal(toolName("git", "a.b/c d", none), "mcp_git_a_b_c_d");
  const long = toolName("git", "x".repeat(100), none);
  assert.match(long, /^[A-Za-z0-9_-]{64}$/);
  assert.equal(long, toolName("git", "x".repeat(100), none));
  assert.notEqual(long, toolName("git", `${"x".repeat(99)}y`, none));
});

test("two tools never share a name", () => {
  const first = toolName("a", "b.c", new Set());
  const second = toolName("a", "b_c", new Set([first]));
  assert.notEqual(first, second);
});
