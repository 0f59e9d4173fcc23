import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { stripVTControlCharacters } from "node:util";
import type { ChatState, Question } from "../../../src/client/conversation/state.ts";
import { widthOf } from "../../../src/chat/view/text/line.ts";
import { testScreen } from "./screen.ts";
import { IDLE, NOW_MS, TALK, TOOL, TURN } from "./states.ts";

// Ink's own colours; a variable of the environment would reach the programs that other tests start meanwhile.
const inkRequire = createRequire(import.meta.resolve("ink"));
const { default: colours } = (await import(pathToFileURL(inkRequire.resolve("chalk")).href)) as {
  readonly default: { level: number };
};
colours.level = 1;

const APPROVAL: Question = {
  kind: "approval",
  id: "q1",
  command: "rm -rf build && make all",
  description: "rm -rf deletes without asking",
  toolName: "terminal",
  choices: ["once", "session", "always", "deny"],
  expiresAtMs: NOW_MS + 200_000,
};

/** Without the weights, which stay without colour. */
function plain(styled: string): string {
  return stripVTControlCharacters(styled).replaceAll(/ +$/gm, "");
}

function shown(state: ChatState, columns: number): string {
  using screen = testScreen(IDLE, { columns });
  screen.change(state);
  screen.wait(0);
  return plain(screen.text());
}

test("a conversation at 80 columns", () => {
  assert.equal(shown(TALK, 80), TALK_AT_80);
});

test("a conversation at 40 columns", () => {
  assert.equal(shown(TALK, 40), TALK_AT_40);
});

test("without colour no colour codes are written at all; with it, they are", () => {
  using screen = testScreen(TALK);
  const codes = (text: string) =>
    new Set(
      text
        .split("\u001b[")
        .slice(1)
        .map((part) => part.split("m", 1)[0]),
    );
  assert.deepEqual([...codes(screen.text(false))].toSorted(), ["1", "22"]);
  const coloured = codes(screen.text(true));
  for (const code of ["31", "32", "36", "33", "2", "3", "4"]) assert.ok(coloured.has(code), code);
  assert.equal(plain(screen.text(true)), plain(screen.text(false)));
});

test("a running turn: the tool with its progress, the queue, and the approval", () => {
  const running = { ...TOOL, status: "running", progress: "one\ntwo", durationSeconds: undefined } as const;
  const state: ChatState = {
    ...IDLE,
    turn: TURN,
    live: [running],
    queue: [{ turnId: "x", preview: "and then\nrun the tests" }],
    questions: [APPROVAL],
  };
  assert.equal(
    shown(state, 80),
    `agentd  Sums  /code/sums

● terminal  npm test  4.0 s
    one
    two

● waiting for you  3 s
  next  and then ⏎ run the tests

▌ approval  terminal asks to run  3:20 left

    rm -rf build && make all

  rm -rf deletes without asking

    1  allow once
    2  allow in this session
    3  allow always
    4  deny

  1-4 or y n answers · ↑↓ and enter · esc denies

local:sum-1 · context 10% of 128k · $0.0123 · 1 queued · Sums
ctrl-c denies`,
  );
});

test("a question with choices, and with several to tick", () => {
  const question: Question = {
    kind: "clarify",
    id: "c1",
    question: "Which database shall the service use?",
    choices: ["SQLite: one file, nothing to run", "PostgreSQL"],
    isMultiSelect: true,
  };
  using screen = testScreen(IDLE, { columns: 40 });
  screen.change({ ...IDLE, questions: [question] });
  screen.wait(400);
  screen.press("text:1", "down");
  assert.equal(
    plain(screen.text()),
    `agentd  Sums  /code/sums

▌ question

  Which database shall the service use?

    1  ☑ SQLite: one file, nothing to
         run
  › 2  ☐ PostgreSQL
    ✎  something else: type it

  1-2 ticks · enter sends · esc skips

local:sum-1 · context 10% of 128k`,
  );
});

test("a hidden answer: neither what is typed nor how long it is can be seen", () => {
  const sudo: Question = { kind: "sudo", id: "s1", command: "apt-get install tmux" };
  using screen = testScreen(IDLE);
  screen.change({ ...IDLE, questions: [sudo] });
  assert.match(
    plain(screen.text()),
    /▌ sudo {2}needs your password for\n\n {4}apt-get install tmux\n\n {2}› what you/,
  );
  screen.press("text:h");
  const one = screen.frame();
  screen.press("text:unter2-and-much-more");
  assert.deepEqual(screen.frame().lines, one.lines);
  assert.deepEqual(screen.frame().cursor, one.cursor);
  assert.doesNotMatch(screen.text(), /unter2/);
});

test("the pickers list their rows, filter while typing, and show why a model may not answer", () => {
  const rows = [
    { id: "local:sum-1", provider: "local", model: "sum-1", isCurrent: true },
    {
      id: "far:big",
      provider: "far",
      model: "big",
      isCurrent: false,
      warning: "no key: put FAR_KEY into .env",
    },
  ];
  using screen = testScreen({ ...IDLE, picker: { kind: "models", isLoading: false, rows } });
  assert.match(
    plain(screen.text()),
    /▌ models\n\n {2}› local:sum-1 {2}this one\n {4}far:big {2}no key: put FAR_KEY/,
  );
  screen.press("text:big");
  assert.match(plain(screen.text()), /▌ models {2}big▏\n\n {2}› far:big/);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["pick", "far:big"]]);
});

test("the session switcher shows a long list around what is chosen", () => {
  const rows = Array.from({ length: 50 }, (_, index) => ({
    id: `s${index}`,
    title: `session ${index}`,
    preview: "",
    model: "m",
    messageCount: index,
    lastActiveMs: NOW_MS - index * 3_600_000,
    isCurrent: index === 0,
  }));
  using screen = testScreen({ ...IDLE, picker: { kind: "sessions", isLoading: false, rows } }, { rows: 16 });
  screen.press("page-down", "page-down", "down");
  const text = plain(screen.text());
  assert.match(text, /▌ sessions {2}18 of 50/);
  assert.match(text, /› session 17 {2}17 h · 17 messages/);
  assert.ok(text.split("\n").length <= 16);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["pick", "s17"]]);
});

test("completions stand under the composer; Tab and Enter take one, and Enter then sends", () => {
  const completions = [
    { text: "/model", display: "/model", meta: "Choose the model" },
    { text: "/more", display: "/more", meta: "" },
  ];
  const composer = { ...IDLE.composer, completions, completionsFor: "/mo" };
  using screen = testScreen({ ...IDLE, composer });
  screen.press("text:/mo");
  assert.match(plain(screen.text()), /› \/mo\n {2}› \/model {2}Choose the model\n {4}\/more/);
  screen.press("down", "up", "enter");
  assert.deepEqual(screen.calls, []);
  assert.match(plain(screen.text()), /› \/model\n\n/);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["submit", "/model", undefined]]);
});

test("the cursor stands in the composer, behind wide characters as well", () => {
  using screen = testScreen(IDLE);
  screen.press("text:日本e\u0301");
  const { cursor, lines } = screen.frame();
  assert.deepEqual(cursor, { x: 7, y: 1 });
  assert.equal(lines[1]?.map(({ text }) => text).join(""), "› 日本e\u0301");
});

test("no frame is ever higher than the terminal or wider than it, however small", () => {
  const long = Array.from({ length: 60 }, (_, index) => `line ${index} of some length`).join("\n");
  const state: ChatState = {
    ...TALK,
    turn: TURN,
    live: [{ kind: "assistant", id: "a9", text: long, status: "streaming" }],
    questions: [{ ...APPROVAL, command: long }],
    notifications: [{ id: "x", level: "warning", text: "a notice ".repeat(10) }],
  };
  for (const [columns, rows] of [
    [80, 24],
    [40, 12],
    [20, 6],
    [8, 4],
    [1, 2],
  ] as const) {
    using screen = testScreen(IDLE, { columns, rows });
    screen.press("text:a draft that is longer than the terminal is wide, if it is narrow");
    screen.change(state);
    screen.wait(1_000);
    assert.ok(screen.frames.length > 0);
    for (const { lines } of screen.frames)
      assert.ok(lines.length <= Math.max(1, rows - 2), `${columns}x${rows}: ${lines.length}`);
    const widest = Math.max(...plain(screen.text()).split("\n").map(widthOf));
    assert.ok(widest <= Math.max(columns, 2), `${columns}x${rows}: ${widest}`);
  }
});

const TALK_AT_80 = `agentd  Sums  /code/sums

› the sums are wrong, please fix them

∴ The user says that sums are wrong.
  I should look at the code.

✓ terminal  npm test  3.2 s
✓ patch  src/sum.ts  0.1 s
    --- a/src/sum.ts
    +++ b/src/sum.ts
    @@ -1,3 +1,3 @@
     export function sum(a: number, b: number) {
    -  return a - b;
    +  return a + b;
     }
✗ terminal  rm -rf /  12 s
    denied by the user

  What I found

  The function sum in src/sum.ts subtracted. I changed one sign, see the rule
  (https://example.org/sums):

  ts
    export const sum = (a: number, b: number) => a + b;

  • first, a point that is long enough to be wrapped at eighty columns, as one
    sees here
    • a point below it
  1. numbered

  │ quoted words

  Wide: 日本語のテキスト, joined: 👩‍👩‍👧, combined: é.

! The context is nearly full: /compress makes room.

› write a prompt, or / for commands

local:sum-1 · context 10% of 128k · $0.0123 · Sums
? keys · / commands · ctrl-r history · ctrl-d leaves`;

const TALK_AT_40 = `agentd  Sums  /code/sums

› the sums are wrong, please fix them

∴ The user says that sums are wrong.
  I should look at the code.

✓ terminal  npm test  3.2 s
✓ patch  src/sum.ts  0.1 s
    --- a/src/sum.ts
    +++ b/src/sum.ts
    @@ -1,3 +1,3 @@
     export function sum(a: number,
       b: number) {
    -  return a - b;
    +  return a + b;
     }
✗ terminal  rm -rf /  12 s
    denied by the user

  What I found

  The function sum in src/sum.ts
  subtracted. I changed one sign, see
  the rule (https://example.org/sums):

  ts
    export const sum = (a: number, b:
      number) => a + b;

  • first, a point that is long enough
    to be wrapped at eighty columns, as
    one sees here
    • a point below it
  1. numbered

  │ quoted words

  Wide: 日本語のテキスト, joined: 👩‍👩‍👧,
  combined: é.

! The context is nearly full: /compress
  makes room.

› write a prompt, or / for commands

local:sum-1 · context 10% of 128k
? keys · / commands · ctrl-r history`;
