import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Completion, ToolError } from "../../../../src/agent/tool/tool.ts";
import { createVisionAnalyze } from "../../../../src/agent/tools/vision-analyze.ts";
import { pngBytes } from "../attachments/images.ts";
import { call, inspect, workspace } from "./call.ts";

const tool = createVisionAnalyze({ model: "eyes:one", maxBytes: 1_000_000 });

test("the vision model gets the image with the question, and its answer is returned", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a.png"), pngBytes(2, 2));
  const asked: Completion[] = [];
  const complete = async (prompt: Completion) => (asked.push(prompt), "a square");
  const text = await call(tool, { image: "a.png", question: "What is it?" }, { cwd, context: { complete } });
  assert.equal(text, "a square");
  const [message] = asked[0]?.messages ?? [];
  assert.equal(asked[0]?.model, "eyes:one");
  assert.ok(message?.role === "user" && message.text === "What is it?");
  assert.equal(message.attachments?.[0]?.mediaType, "image/png");
});

test("a file that is not an image is reported, and no model is called", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a.png"), "just text");
  for (const image of ["a.png", "absent.png", "data:image/png;base64,AAAA"]) {
    await assert.rejects(call(tool, { image, question: "?" }, { cwd }), ToolError);
  }
});

test("the policy sees which file is read", (t) => {
  const cwd = workspace(t);
  const { reads, kind } = inspect(tool, { image: "/etc/shadow", question: "?" }, cwd);
  assert.deepEqual([kind, reads], ["file", ["/etc/shadow"]]);
  assert.equal(inspect(tool, { image: "data:image/png;base64,AA", question: "?" }, cwd).reads, undefined);
});
