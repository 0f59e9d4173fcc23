import assert from "node:assert/strict";
import { test } from "node:test";
import type { AssistantItem, ChatState } from "../../../src/client/conversation/state.ts";
import { textOf } from "../../../src/chat/view/text/line.ts";
import { testScreen, type TestScreen } from "./screen.ts";
import { IDLE, TURN } from "./states.ts";

function answer(text: string, status: AssistantItem["status"] = "streaming"): AssistantItem {
  return { kind: "assistant", id: "a1", text, status };
}

function streaming(text: string): ChatState {
  return { ...IDLE, turn: TURN, live: [answer(text)] };
}

function lines(count: number): string {
  return Array.from({ length: count }, (_, index) => `line ${index}`).join("\n");
}

function printedText({ printed }: TestScreen): string {
  return textOf(printed).replaceAll(/^ {2}/gm, "");
}

/** Draws until nothing more is to be printed. */
function drain(screen: TestScreen): void {
  for (let before = -1; before !== screen.printed.length;) {
    before = screen.printed.length;
    screen.wait(34);
  }
}

test("settled items are printed once, whatever is drawn after", () => {
  using screen = testScreen(IDLE);
  const settled = [{ kind: "user", id: "u1", text: "hello" }] as const;
  screen.change({ ...IDLE, settled });
  screen.change({ ...IDLE, settled, turn: TURN });
  screen.resize(60, 30);
  screen.wait(1_000);
  assert.equal(printedText(screen).match(/hello/g)?.length, 1);
});

test("items that fell off the front before they could be printed are counted, not missed", () => {
  using screen = testScreen(IDLE);
  const item = (id: number) =>
    ({ kind: "notice", id: `n${id}`, level: "info", text: `notice ${id}` }) as const;
  screen.change({ ...IDLE, generation: 2, dropped: 100, settled: [item(100)] });
  screen.change({ ...IDLE, generation: 2, dropped: 101, settled: [item(101), item(102)] });
  assert.match(printedText(screen), /… 100 earlier items\n· notice 100\n· notice 101\n· notice 102$/);
});

test("an answer that streams is printed line by line as it outgrows the terminal, and whole in the end", () => {
  using screen = testScreen(IDLE, { rows: 20 });
  const text = lines(200);
  for (let end = 7; end < text.length; end += 37) {
    screen.change(streaming(text.slice(0, end)));
    assert.ok(screen.frame().lines.length < 20);
  }
  assert.match(printedText(screen), /line 150\n/);
  screen.change({ ...IDLE, settled: [answer(text, "complete")] });
  drain(screen);
  assert.ok(printedText(screen).endsWith(`\n${text}`));
  assert.equal(screen.printed.length, 200 + 2);
});

test("when the final answer differs from the streamed text, it is printed whole with a note", () => {
  using screen = testScreen(IDLE, { rows: 20 });
  screen.change(streaming(lines(100)));
  screen.change({ ...IDLE, settled: [answer("another answer", "complete")] });
  drain(screen);
  assert.match(printedText(screen), /the final answer:\nanother answer$/);
});

test("an interrupted answer says so, below what was printed of it", () => {
  using screen = testScreen(IDLE, { rows: 20 });
  screen.change(streaming(lines(100)));
  screen.change({ ...IDLE, settled: [answer(lines(100), "interrupted")] });
  drain(screen);
  assert.match(printedText(screen), /line 98\nline 99\ninterrupted$/);
});

test("a fence that is printed in pieces stays a fence", () => {
  using screen = testScreen(IDLE, { rows: 20 });
  const text = `\`\`\`\n${lines(100).replaceAll("line", "# line")}\n\`\`\`\nend`;
  for (let end = 0; end < text.length; end += 50) screen.change(streaming(text.slice(0, end)));
  screen.change({ ...IDLE, settled: [answer(text, "complete")] });
  drain(screen);
  assert.equal(printedText(screen).match(/^ {2}# line \d+$/gm)?.length, 100);
});

test("an answer of ten thousand lines at once is printed over many frames, each of them short", () => {
  using screen = testScreen(IDLE);
  screen.change({ ...IDLE, settled: [answer(lines(10_000), "complete")] });
  assert.ok(screen.printed.length < 1_000);
  drain(screen);
  assert.ok(printedText(screen).endsWith(lines(10_000)));
});

test("another transcript clears the screen and is printed from its start", () => {
  using screen = testScreen({ ...IDLE, settled: [{ kind: "user", id: "u1", text: "old" }] });
  assert.equal(screen.frame().isNew, false);
  const next: ChatState = {
    ...IDLE,
    generation: 2,
    session: { id: "x", title: "Other", cwd: "/work" },
    settled: [{ kind: "user", id: "u1", text: "new" }],
  };
  screen.change(next);
  assert.equal(screen.frame().isNew, true);
  assert.match(printedText(screen), /agentd {2}Other {2}\/work\n\n› new$/);
  screen.wait(50);
  assert.equal(screen.frame().isNew, false);
});

test("a command that is taller than the terminal is printed once above its dialog", () => {
  using screen = testScreen(IDLE, { rows: 24 });
  const command = lines(100);
  const question = {
    kind: "approval",
    id: "q1",
    command,
    description: "",
    choices: ["once", "deny"],
  } as const;
  screen.change({ ...IDLE, questions: [question] });
  screen.wait(1_000);
  screen.wait(1_000);
  assert.equal(printedText(screen).match(/line \d+$/gm)?.length, 100);
  assert.match(screen.text(), /\(the whole command is above: 100 lines\)/);
});
