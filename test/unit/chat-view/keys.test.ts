import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatState, Question } from "../../../src/client/conversation/state.ts";
import { testScreen } from "./screen.ts";
import { IDLE, TURN } from "./states.ts";

const APPROVAL: Question = {
  kind: "approval",
  id: "q1",
  command: "rm -rf build",
  description: "",
  choices: ["once", "session", "always", "deny"],
};
const ASKED: ChatState = { ...IDLE, turn: TURN, questions: [APPROVAL] };
/** Longer than keys are held to be typed ahead. */
const LATER_MS = 500;

function approval(id: string): Question {
  return { ...APPROVAL, id };
}

for (const [key, choice] of [
  ["1", "once"],
  ["2", "session"],
  ["3", "always"],
  ["4", "deny"],
] as const) {
  test(`an approval is answered by ${key}: ${choice}`, () => {
    using screen = testScreen(ASKED);
    screen.wait(LATER_MS);
    screen.press(`text:${key}`);
    assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice }]]);
  });
}

test("Esc denies an approval, and Ctrl-C is the chat's to deny", () => {
  using screen = testScreen(ASKED);
  screen.wait(LATER_MS);
  screen.press("escape");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "deny" }]]);
  screen.press("interrupt");
  assert.deepEqual(screen.calls.at(-1), ["interrupt"]);
});

test("arrows and Enter answer an approval with the marked choice", () => {
  using screen = testScreen(ASKED);
  screen.wait(LATER_MS);
  screen.press("enter");
  assert.deepEqual(screen.calls, [], "nothing is chosen before somebody chose");
  screen.press("up", "up", "up", "down", "enter");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "always" }]]);
});

for (const presses of [["down"], ["down", "down"], ["up"], ["tab", "down", "down"]] as const) {
  test(`the habit of pressing ${presses.join(", ")} and Enter on an approval denies it`, () => {
    using screen = testScreen({ ...ASKED, questions: [{ ...APPROVAL, choices: ["once", "deny"] }] });
    screen.wait(LATER_MS);
    screen.press(...presses, "enter");
    assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "deny" }]]);
  });
}

for (const [key, choice] of [
  ["y", "once"],
  ["n", "deny"],
] as const) {
  test(`the key ${key} answers an approval: ${choice}, except while a draft is in the composer`, () => {
    using screen = testScreen(ASKED);
    screen.wait(LATER_MS);
    screen.press(`text:${key}`);
    assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice }]]);
    using writing = testScreen({ ...IDLE, turn: TURN });
    writing.press("text:look at ");
    writing.change(ASKED);
    writing.wait(LATER_MS);
    writing.press(`text:${key}`);
    assert.deepEqual(writing.calls, []);
  });
}

test("only an approval is denied by Ctrl-C; a question or a password is skipped", () => {
  using approving = testScreen(ASKED);
  assert.match(approving.text(), /ctrl-c denies/);
  for (const question of [CLARIFY, SUDO]) {
    using other = testScreen({ ...IDLE, turn: TURN, questions: [question] });
    assert.doesNotMatch(other.text(), /denies/);
  }
});

test("keys typed before a dialog could be read never answer it and go to the composer", () => {
  using screen = testScreen({ ...IDLE, turn: TURN });
  screen.press("text:look at file ");
  screen.change(ASKED);
  screen.press("text:1", "enter", "escape");
  screen.wait(250);
  // Whoever still types has not read the card: each key holds it off anew.
  screen.press("text:4");
  screen.wait(250);
  screen.press("text:2", "enter");
  assert.deepEqual(screen.calls, []);
  assert.match(screen.text(), /› look at file 142/);
  screen.wait(LATER_MS);
  screen.press("text:4");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "deny" }]]);
  assert.match(screen.text(), /› look at file 142/);
});

test("words typed while an approval is shown answer nothing, with an Enter and digits among them", () => {
  using screen = testScreen(ASKED);
  screen.wait(LATER_MS);
  screen.press("text:/he", "enter", "text:1", "enter");
  assert.deepEqual(screen.calls, []);
  assert.match(screen.text(), /› \/he1/);
});

test("a pasted text never answers an approval", () => {
  using screen = testScreen(ASKED);
  screen.wait(LATER_MS);
  screen.paste("1");
  screen.wait(LATER_MS);
  assert.deepEqual(screen.calls, []);
});

test("a second key does not answer the next approval", () => {
  using screen = testScreen({ ...ASKED, questions: [approval("q1"), approval("q2")] });
  screen.wait(LATER_MS);
  screen.press("text:1", "text:1");
  screen.change({ ...ASKED, questions: [approval("q2")] });
  screen.press("text:1");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "once" }]]);
});

test("one answer can apply to all pending approvals", () => {
  using screen = testScreen({ ...ASKED, questions: [approval("q1"), approval("q2"), approval("q3")] });
  screen.wait(LATER_MS);
  assert.match(screen.text(), /a {2}same for the 2 other pending approvals ☐/);
  screen.press("text:a");
  assert.match(screen.text(), /pending approvals ☑/);
  screen.press("text:4");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "deny", all: true }]]);
});

test("only what is offered can be chosen", () => {
  using screen = testScreen({ ...ASKED, questions: [{ ...APPROVAL, choices: ["once", "deny"] }] });
  screen.wait(LATER_MS);
  screen.press("text:3", "text:4", "text:9", "text:x");
  assert.deepEqual(screen.calls, []);
  screen.wait(LATER_MS);
  screen.press("text:2");
  assert.deepEqual(screen.calls, [["answer", "q1", { kind: "approval", choice: "deny" }]]);
});

const CLARIFY: Question = {
  kind: "clarify",
  id: "c1",
  question: "Which?",
  choices: ["red", "blue"],
  isMultiSelect: false,
};

function asking(question: Question) {
  const screen = testScreen({ ...IDLE, questions: [question] });
  screen.wait(LATER_MS);
  return screen;
}

test("a question is answered by the number of a choice, by arrows, or in one's own words", () => {
  using byNumber = asking(CLARIFY);
  byNumber.press("text:2");
  assert.deepEqual(byNumber.calls, [["answer", "c1", { kind: "clarify", answer: "blue" }]]);
  using byArrow = asking(CLARIFY);
  byArrow.press("enter", "down", "down", "enter");
  assert.deepEqual(byArrow.calls, [["answer", "c1", { kind: "clarify", answer: "blue" }]]);
  using byWord = asking(CLARIFY);
  byWord.press("text:gr", "text:een 2", "backspace", "enter");
  assert.deepEqual(byWord.calls, [["answer", "c1", { kind: "clarify", answer: "green" }]]);
});

test("a dialog of several questions shows the current number, and further keys do not answer the next one", () => {
  const parts = ["Which?", "And which size?"].map((question, at) => ({
    id: `${at}`,
    question,
    choices: [],
    isMultiSelect: false,
  }));
  const batch = { requestId: "c1", parts, at: 0, given: {} };
  const first: Question = { ...CLARIFY, batch };
  using screen = asking(first);
  assert.match(screen.text(), /question {2}1 of 2/);
  screen.press("text:2");
  const second: Question = { ...first, id: "c1#1", question: "And which size?", batch: { ...batch, at: 1 } };
  screen.change({ ...IDLE, questions: [second] });
  screen.press("text:2");
  assert.match(screen.text(), /question {2}2 of 2/);
  assert.deepEqual(screen.calls, [["answer", "c1", { kind: "clarify", answer: "blue" }]]);
});

test("several choices are ticked and sent together, with words of one's own", () => {
  using screen = asking({ ...CLARIFY, isMultiSelect: true });
  screen.press("text:2", "text:1", "down", "text: ", "text: ", "down", "text:pink", "enter");
  assert.deepEqual(screen.calls, [["answer", "c1", { kind: "clarify", answer: "red\nblue\npink" }]]);
});

test("Esc skips a question; Enter alone does not", () => {
  using screen = asking({ ...CLARIFY, choices: [] });
  screen.press("enter");
  assert.deepEqual(screen.calls, []);
  screen.press("escape");
  assert.deepEqual(screen.calls, [["answer", "c1", { kind: "clarify", answer: "" }]]);
});

const SUDO: Question = { kind: "sudo", id: "s1", command: "apt-get install x" };

test("a password typed from the first moment on is whole, and only a late Enter sends it", () => {
  using screen = testScreen({ ...IDLE, questions: [SUDO] });
  screen.press("text:hunt", "enter", "text:er2");
  screen.wait(LATER_MS);
  assert.deepEqual(screen.calls, []);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["answer", "s1", { kind: "sudo", password: "hunter2" }]]);
  assert.doesNotMatch(JSON.stringify(screen.frames), /hunt|er2/);
});

test("a pasted secret stays unseen, and Esc refuses", () => {
  const secret: Question = { kind: "secret", id: "k1", prompt: "The key", envVar: "KEY" };
  using screen = asking(secret);
  screen.paste("sk-canary\n");
  screen.press("enter");
  assert.deepEqual(screen.calls, [["answer", "k1", { kind: "secret", value: "sk-canary" }]]);
  assert.doesNotMatch(JSON.stringify(screen.frames), /canary/);
  using refused = asking(secret);
  refused.press("text:abc", "escape");
  assert.deepEqual(refused.calls, [["answer", "k1", { kind: "secret", value: "" }]]);
});

test("a password that is typed on after its question ended does not land in the composer", () => {
  using screen = testScreen({ ...IDLE, questions: [SUDO] });
  screen.press("text:hunt");
  screen.change(IDLE);
  screen.press("text:er2", "enter");
  screen.paste("secret");
  assert.deepEqual(screen.calls, []);
  assert.doesNotMatch(JSON.stringify(screen.frames), /er2|secret/);
  screen.wait(2_000);
  screen.press("text:hello", "enter");
  assert.deepEqual(screen.calls, [["submit", "hello", undefined]]);
});

test("Enter sends, Alt-Enter and a backslash break the line", () => {
  using screen = testScreen(IDLE);
  screen.press("text:one", "newline", "text:two\\", "enter", "text:three", "enter");
  assert.deepEqual(screen.calls, [["submit", "one\ntwo\nthree", undefined]]);
  screen.press("enter", "text:  ", "enter");
  assert.equal(screen.calls.length, 1);
});

test("a paste of several lines stands in the composer and is sent whole", () => {
  using screen = testScreen(IDLE);
  screen.paste("a\r\nb\r\n\tc");
  assert.match(screen.text(), /› a\n {2}b\n {6}c/);
  assert.deepEqual(screen.calls, []);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["submit", "a\nb\n\tc", undefined]]);
});

test("while a turn runs, Enter queues, Ctrl-T steers and Ctrl-X interrupts and sends", () => {
  using screen = testScreen({ ...IDLE, turn: TURN });
  screen.press("text:a", "enter", "text:b", "steer", "text:c", "send-now");
  assert.deepEqual(screen.calls, [
    ["submit", "a", undefined],
    ["submit", "b", "steer"],
    ["submit", "c", "interrupt"],
  ]);
});

test("up and down browse earlier prompts and return to the draft", () => {
  using screen = testScreen(IDLE);
  screen.press("text:draft", "up");
  assert.match(screen.text(), /› second prompt/);
  screen.press("up", "up");
  assert.match(screen.text(), /› first prompt/);
  screen.press("down", "down");
  assert.match(screen.text(), /› draft/);
  screen.press("up", "up", "enter");
  assert.deepEqual(screen.calls, [["submit", "first prompt", undefined]]);
});

test("Ctrl-C clears a draft first, and Ctrl-D leaves only from an empty composer", () => {
  using screen = testScreen(IDLE);
  screen.press("text:draft", "leave", "interrupt");
  assert.deepEqual(screen.calls, []);
  screen.press("interrupt", "leave");
  assert.deepEqual(screen.calls, [["interrupt"], ["leave"]]);
  using atWork = testScreen({ ...IDLE, turn: TURN });
  atWork.press("text:draft", "interrupt");
  assert.deepEqual(atWork.calls, [["interrupt"]]);
  assert.match(atWork.text(), /› draft/);
});

test("a prefill is put into the composer once", () => {
  using screen = testScreen(IDLE);
  const filled = { ...IDLE, composer: { ...IDLE.composer, prefill: { serial: 1, text: "taken back" } } };
  screen.change(filled);
  screen.press("text: and changed");
  screen.change({ ...filled });
  assert.match(screen.text(), /› taken back and changed/);
});

test("the search of earlier prompts narrows with each word, and Ctrl-R again shows an older one", () => {
  const rows = ["fix the sums", "say hello", "fix the tests"].map((prompt, index) => ({
    id: `${index}`,
    prompt,
  }));
  using screen = testScreen({ ...IDLE, picker: { kind: "history", isLoading: false, rows } });
  assert.match(screen.text(), /▌ prompts\n\n {2}› fix the sums\n {4}say hello\n {4}fix the tests/);
  screen.press("text:fix", "history", "enter");
  assert.match(screen.text(), /▌ prompts {2}fix▏\n\n {4}fix the sums\n {2}› fix the tests\n\n/);
  assert.deepEqual(screen.calls, [["pick", "2"]]);
});

test("the pickers open with a key and close with Esc", () => {
  using screen = testScreen(IDLE);
  screen.press("models", "sessions", "history");
  assert.deepEqual(screen.calls, [
    ["openPicker", "models"],
    ["openPicker", "sessions"],
    ["openPicker", "history"],
  ]);
  screen.change({ ...IDLE, picker: { kind: "sessions", isLoading: true, rows: [] } });
  assert.match(screen.text(), /loading/);
  screen.press("escape");
  assert.deepEqual(screen.calls.at(-1), ["closePicker"]);
});
