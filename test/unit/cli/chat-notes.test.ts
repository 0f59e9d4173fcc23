import assert from "node:assert/strict";
import { test } from "node:test";
import { ChildLog } from "../../../src/cli/chat/gateway.ts";

test("of what a gateway says before it fails the end is kept, and not more than fits a screen", () => {
  const notes = new ChildLog();
  for (let line = 1; line <= 1_000; line++) notes.add(`line ${line}`);
  notes.add("x".repeat(1_000_000));
  assert.equal(notes.lines.length, 20);
  assert.equal(notes.lines.at(-2), "line 1000");
  assert.ok((notes.lines.at(-1)?.length ?? 0) <= 2_000);
});
