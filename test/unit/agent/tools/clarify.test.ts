import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClarifyQuestion } from "../../../../generated/http/client/types.gen.ts";
import { createClarify } from "../../../../src/agent/tools/clarify.ts";
import { createTestAgent } from "../../../harness/agent.ts";
import { call, inspect } from "./call.ts";

const clarify = createClarify();

function answering(answers: Readonly<Record<string, string>>) {
  const asked: ClarifyQuestion[] = [];
  const unused = async () => assert.fail("asked for something else");
  const questions = {
    clarify: async (given: readonly ClarifyQuestion[]) => (asked.push(...given), answers),
    sudo: unused,
    secret: unused,
  };
  return { asked, options: { cwd: "/", context: { questions } } };
}

test("each question gets an id, and its choices or none", async () => {
  const { asked, options } = answering({ q1: "red", q2: "" });
  const questions = [{ question: "Colour?", choices: ["red", "blue"] }, { question: "Name?" }];
  const text = await call(clarify, { questions }, options);
  assert.deepEqual(asked, [
    { id: "q1", question: "Colour?", choices: ["red", "blue"], multi_select: false },
    { id: "q2", question: "Name?", choices: null, multi_select: false },
  ]);
  assert.equal(text, "Q: Colour?\nA: red\n\nQ: Name?\nA: (skipped: decide yourself)");
});

test("no question, too many, a single choice and empty texts are refused", async () => {
  const { asked, options } = answering({});
  const bad = [
    [],
    Array.from({ length: 9 }, () => ({ question: "x" })),
    [{ question: "" }],
    [{ question: "x", choices: ["only"] }],
    [{ question: "x", choices: Array.from({ length: 13 }, (_, n) => `${n}`) }],
    [{ question: "x".repeat(2_001) }],
  ];
  for (const questions of bad) await assert.rejects(call(clarify, { questions }, options), TypeError);
  assert.deepEqual(asked, []);
});

test("it needs no approval, and its title is short", () => {
  const intent = inspect(clarify, { questions: [{ question: "x".repeat(2_000) }] }, "/");
  assert.equal(intent.effect, "none");
  assert.ok(intent.title.length < 130);
});

test("a run that cannot ask does not offer the tool", async () => {
  await using agent = await createTestAgent({
    tools: [clarify],
    script: ({ tools }) => ({ text: tools.join() }),
  });
  for (const answerable of [true, false]) {
    const { runId } = await agent.submit("go", { answerable });
    assert.equal((await agent.events(runId)).at(-1)?.data["output"], answerable ? "clarify" : "");
  }
});
