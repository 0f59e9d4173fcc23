import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_REPLY_CHARACTERS } from "../../../src/agent/question/question.ts";
import { formAnswers, formMessage, formSchema } from "../../../src/acp/questions/clarify.ts";

const colour = { id: "q1", question: "Which?", choices: ["red", "blue"], multi_select: false };
const sizes = { id: "q2", question: "Sizes?", choices: ["S", "M"], multi_select: true };
const name = { id: "q3", question: "Name?", choices: null, multi_select: false };

test("a single question is the message of its form, several are fields, and no field is required", () => {
  assert.equal(formMessage([name]), "Name?");
  assert.equal(formMessage([name, colour]), "2 questions");
  assert.deepEqual(formSchema([name]), {
    type: "object",
    properties: { q3: { type: "string", title: "Answer" } },
    required: [],
  });
  assert.deepEqual(Object.keys(formSchema([colour, sizes, name]).properties ?? {}), [
    "q1",
    "q1_own",
    "q2",
    "q2_own",
    "q3",
  ]);
});

test("answers are keyed by question id, with choices and own words on separate lines", () => {
  const content = { q1: "red", q1_own: " or green ", q2: ["S", "M"], q3: 7, q4: "what nobody asked" };
  assert.deepEqual(formAnswers([colour, sizes, name], content), {
    q1: "red\nor green",
    q2: "S\nM",
    q3: "7",
  });
});

test("invalid values are skipped, and answers are cut to their limit", () => {
  const skipped = { q1: "", q2: "", q3: "" };
  for (const content of [undefined, null, {}, { q1: null, q2: {}, q3: [[]] }, { q1: [" "], q3_own: "x" }]) {
    assert.deepEqual(formAnswers([colour, sizes, name], content), skipped);
  }
  assert.equal(formAnswers([name], { q3: "x".repeat(100_000) })["q3"]?.length, MAX_REPLY_CHARACTERS);
});
