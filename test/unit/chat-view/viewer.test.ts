import assert from "node:assert/strict";
import { test } from "node:test";
import { agentsPage, KEYS_PAGE, openViewer, outputPages } from "../../../src/client/conversation/viewer.ts";
import type { ChatState, ToolItem } from "../../../src/client/conversation/state.ts";
import { testScreen } from "./screen.ts";
import { DIFF, IDLE, TOOL, TURN } from "./states.ts";

const lines = (count: number) => Array.from({ length: count }, (_, index) => `row ${index + 1}`).join("\n");
const tool = (id: string, output: string, more: Partial<ToolItem> = {}): ToolItem => ({
  ...TOOL,
  id,
  output,
  ...more,
});
const withTools = (...settled: readonly ToolItem[]): ChatState => ({ ...IDLE, settled });

for (const count of [13, 30, 60, 200]) {
  test(`of ${count} lines of output, the transcript says how many it hides`, () => {
    using screen = testScreen(withTools(tool("t1", lines(count))), { rows: 50 });
    assert.match(
      screen.text(),
      new RegExp(`row 12\\n {4}… ${count - 12} more lines? \\(ctrl-o shows the rest\\)`),
    );
    assert.doesNotMatch(screen.text(), /row 13/);
  });
}

test("output of twelve lines is shown whole, without a note", () => {
  using screen = testScreen(withTools(tool("t1", lines(12))), { rows: 50 });
  assert.match(screen.text(), /row 12\n/);
  assert.doesNotMatch(screen.text(), /more lines/);
});

test("Ctrl-O, ? and Shift-Tab are reported, and a question mark inside a prompt is text", () => {
  using screen = testScreen(IDLE);
  screen.press("output", "text:?", "back-tab", "text:why", "text:?", "enter");
  assert.deepEqual(screen.calls, [
    ["openViewer", "output"],
    ["openViewer", "keys"],
    ["nextMode"],
    ["submit", "why?", undefined],
  ]);
});

test("the viewer shows the newest cut block, scrolls through all its lines, and changes to other blocks", () => {
  const state = withTools(
    tool("t1", lines(100), { context: "make" }),
    tool("t2", "short"),
    tool("t3", `new\n${lines(40)}`, { context: "npm test" }),
  );
  using screen = testScreen(openViewer(state, outputPages(state), -1), { rows: 24 });
  assert.match(screen.text(), /▌ terminal {2}npm test {2}2 of 2\n\n {2}new\n {2}row 1\n/);
  assert.match(screen.text(), /esc closes {2}1-14 of 41/);
  screen.press("page-down", "page-down");
  assert.match(screen.text(), /row 40\n\n.*28-41 of 41/);
  screen.press("page-down", "up");
  assert.match(screen.text(), /27-40 of 41/);
  screen.press("left");
  assert.match(screen.text(), /▌ terminal {2}make {2}1 of 2\n\n {2}row 1\n/);
  screen.press("left", "end");
  assert.match(screen.text(), /row 100\n/);
  screen.press("home", "text: ");
  assert.match(screen.text(), / {2}row 15\n/);
  assert.deepEqual(screen.calls, []);
  screen.press("escape");
  assert.deepEqual(screen.calls, [["closeViewer"]]);
});

test("a cut diff and a cut error are in the viewer, each whole", () => {
  const diff = `${DIFF}${Array.from({ length: 90 }, (_, index) => `+added ${index}`).join("\n")}`;
  const state = withTools(
    tool("t1", "", { diff }),
    tool("t2", "", { status: "failed", error: `it failed\n${lines(20)}` }),
  );
  const pages = outputPages(state);
  assert.deepEqual(
    pages.map(({ isDiff, text }) => [isDiff, text.split("\n").length]),
    [
      [true, 97],
      [false, 21],
    ],
  );
  using screen = testScreen(openViewer(state, pages), { rows: 24 });
  screen.press("end");
  assert.match(screen.text(), /\+added 89\n/);
});

test("without a cut block, the viewer shows the short ones; without any output nothing opens", () => {
  assert.deepEqual(
    outputPages(withTools(tool("t1", "short"))).map(({ text }) => text),
    ["short"],
  );
  assert.deepEqual(outputPages(IDLE), []);
});

test("the list of keys fits a terminal of 80x24", () => {
  using screen = testScreen(openViewer(IDLE, [KEYS_PAGE]), { rows: 24 });
  assert.ok(
    screen
      .text()
      .split("\n")
      .every((line) => line.length <= 80),
  );
  for (const key of ["ctrl-v", "ctrl-g", "ctrl-r", "esc esc", "ctrl-o", "ctrl-l", "shift-tab", "ctrl-d"]) {
    assert.ok(screen.text().includes(key), key);
  }
});

test("what is typed at once with the key that closes the viewer is in the composer", () => {
  const opened = openViewer(IDLE, [KEYS_PAGE]);
  using screen = testScreen(opened);
  screen.press("text:hello", "text:q/help", "enter");
  assert.deepEqual(screen.calls, [["closeViewer"], ["closeViewer"]]);
  screen.change(IDLE);
  assert.match(screen.text(), /^› \/help *$/m);
  screen.press("enter");
  assert.deepEqual(screen.calls.at(-1), ["submit", "/help", undefined]);
});

test("a question of the agent goes before the viewer, and Ctrl-C closes the viewer before it interrupts", () => {
  const opened = openViewer({ ...IDLE, turn: TURN }, [KEYS_PAGE]);
  using screen = testScreen(opened);
  screen.press("interrupt");
  assert.deepEqual(screen.calls, [["closeViewer"]]);
  screen.change({ ...opened, questions: [{ kind: "sudo", id: "s1", command: "apt install x" }] });
  assert.match(screen.text(), /▌ sudo/);
  screen.press("interrupt");
  assert.deepEqual(screen.calls.at(-1), ["interrupt"]);
});

test("Esc twice in an empty composer edits the last prompt, not with a pause between or during a turn", () => {
  using screen = testScreen(IDLE);
  screen.press("escape");
  screen.wait(2_000);
  screen.press("escape");
  assert.deepEqual(screen.calls, []);
  screen.press("escape");
  assert.deepEqual(screen.calls, [["editLast"]]);
  using writing = testScreen(IDLE);
  writing.press("text:x", "escape", "escape");
  assert.deepEqual(writing.calls, []);
  using atWork = testScreen({ ...IDLE, turn: TURN });
  atWork.press("escape", "escape");
  assert.deepEqual(atWork.calls, []);
});

test("the editor gets the whole draft, pastes included, and its text is the new draft", async () => {
  const closed = Promise.withResolvers<string>();
  const opened: string[] = [];
  const edit = (text: string) => {
    opened.push(text);
    return closed.promise;
  };
  using screen = testScreen(IDLE, { edit });
  screen.press("text:see ");
  screen.paste(lines(12));
  screen.press("editor", "text:lost", "enter");
  assert.deepEqual(opened, [`see ${lines(12)}`]);
  assert.deepEqual(screen.calls, []);
  closed.resolve("written in vi");
  await closed.promise;
  await new Promise((resolve) => setImmediate(resolve));
  assert.match(screen.text(), /› written in vi/);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["submit", "written in vi", undefined]]);
});

test("Ctrl-L draws the screen anew, and prints nothing twice", () => {
  using screen = testScreen(withTools(tool("t1", "short")));
  const printed = screen.printed.length;
  screen.press("redraw");
  assert.ok(screen.frames.some(({ isNew, printSerial }) => isNew && printSerial > 0));
  assert.equal(screen.printed.length, printed);
});

test("the page of sub-agents shows what each does now, below the one that started it", () => {
  const agent = { kind: "subagent", toolCount: 1, line: "" } as const;
  const state: ChatState = {
    ...IDLE,
    settled: [
      { ...agent, id: "a1", goal: "read the docs", status: "completed", depth: 1, durationSeconds: 2 },
    ],
    live: [
      { ...agent, id: "a2", goal: "fix the tests", status: "running", depth: 1, line: "terminal  npm test" },
      { ...agent, id: "a3", goal: "find the cause", status: "queued", depth: 2, toolCount: 0 },
    ],
  };
  assert.equal(
    agentsPage(state).text,
    [
      "read the docs  completed, 1 call, 2.0 s",
      "fix the tests  running, 1 call",
      "    terminal  npm test",
      "  find the cause  queued, 0 calls",
    ].join("\n"),
  );
  assert.match(agentsPage(IDLE).text, /no sub-agents/);
});
