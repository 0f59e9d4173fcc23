import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { answersOf, nextPart, putQuestion } from "../../../src/client/conversation/reduce-questions.ts";
import { reduceEvent } from "../../../src/client/conversation/reduce.ts";
import { INITIAL_STATE } from "../../../src/client/conversation/state.ts";
import type { GatewayEvent } from "../../../src/client/gateway.ts";
import { testTool } from "../../harness/agent.ts";
import { startTestService } from "../../harness/service.ts";
import { socketOf, startChat } from "./session.ts";

const ID = "20260101_000000_abcdef";
const OPEN = { ...INITIAL_STATE, session: { id: ID, title: "", cwd: "/" } };
const PARTS = [
  { id: "colour", question: "Which colour?", choices: ["red", "blue"], multi_select: true },
  { id: "size", question: "Which size?", choices: null, multi_select: false },
];

function told(type: string, payload: object): GatewayEvent {
  return { type, payload, session_id: ID, ts: 1 } as unknown as GatewayEvent;
}

test("several questions of one request are shown one after the other, and go with it", () => {
  const first = {
    request_id: "ask_2",
    question: "Which colour?",
    choices: ["red", "blue"],
    expires_at: null,
  };
  const asked = told("clarify.request", { ...first, questions: PARTS });
  const state = reduceEvent(OPEN, asked);
  const [one] = state.questions;
  assert.ok(one?.kind === "clarify");
  assert.deepEqual([one.question, one.choices, one.isMultiSelect], ["Which colour?", ["red", "blue"], true]);
  const two = nextPart(one, "red");
  assert.ok(two);
  assert.deepEqual([two.question, two.choices, two.isMultiSelect], ["Which size?", [], false]);
  assert.notEqual(two.id, one.id, "the screen begins a new card");
  assert.equal(nextPart(two, "L"), undefined);
  assert.deepEqual(answersOf(two, "L"), { colour: "red", size: "L" });
  const later = putQuestion(state, two);
  assert.deepEqual(reduceEvent(later, asked).questions, [two], "told of again it does not begin anew");
  const cancel = told("request.cancel", { id: "ask_2", method: "clarify", reason: "interrupted" });
  assert.deepEqual(reduceEvent(later, cancel).questions, []);
});

const script: Script = ({ step, toolResults }) =>
  step === 0
    ? { calls: [{ tool: "terminal", input: { command: "ask" } }] }
    : { text: `The tool said ${toolResults.at(-1)?.text}` };

for (const [size, told] of [
  ["L", /"size":"L"/],
  ["", /"size":""/],
] as const) {
  test(`every question of a request is answered${size === "" ? ", or skipped" : ""}`, async () => {
    const tool = testTool(async (_, { questions }) => JSON.stringify(await questions.clarify(PARTS)));
    await using service = await startTestService({ script, tools: [tool] });
    await using one = await startChat(socketOf(service));
    one.chat.submit("go");
    const first = await one.asked("clarify");
    one.chat.answer(first.id, { kind: "clarify", answer: "blue" });
    const second = await one.until(({ questions: [question] }) => question?.id !== first.id && question);
    assert.ok(second.kind === "clarify");
    assert.equal(second.question, "Which size?");
    one.chat.answer(second.id, { kind: "clarify", answer: size });
    await one.answered(/^assistant: The tool said .*"colour":"blue"/);
    await one.answered(told);
    assert.deepEqual(one.state().questions, []);
  });
}
