import assert from "node:assert/strict";
import { test } from "node:test";
import { describeMode } from "../../../src/agent/session/session.ts";

test("the description of a mode says when commands run in a sandbox", () => {
  assert.doesNotMatch(describeMode("ask", {}).description, /sandbox/);
  assert.match(describeMode("ask", { isSandboxed: true }).description, /\. Commands run in a sandbox$/);
});
