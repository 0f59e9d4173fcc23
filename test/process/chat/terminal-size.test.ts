/** The screen in a pseudo-terminal, without a gateway: what a terminal makes of what is written to it. */
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { ChatState, Question } from "../../../src/client/conversation/state.ts";
import { pressUntil } from "../../harness/chat-terminal.ts";
import { scriptCommand } from "../../harness/program.ts";
import { startTerminal, terminalIsMissing, type Terminal } from "../../harness/terminal.ts";
import { IDLE, TALK, TURN } from "../../unit/chat-view/states.ts";

const host = join(import.meta.dirname, "host.ts");
/** Says how the terminal was left, and then echoes what is typed. */
const AFTERWARDS =
  "echo left with $?; stty -a | tr ' ;' '\\n\\n' | grep -E '^-?(echo|icanon|isig)$' | xargs echo; cat";
const options = { skip: terminalIsMissing, timeout: 200_000 };

interface Screen extends AsyncDisposable {
  readonly terminal: Terminal;
  push(...states: readonly (ChatState | "crash" | "end")[]): void;
  /** What was called of the actions. */
  calls(): readonly (readonly unknown[])[];
}

interface ScreenOptions {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
}

async function show(
  t: TestContext,
  first: ChatState,
  { columns, rows, env = {} }: ScreenOptions = {},
): Promise<Screen> {
  const folder = mkdtempSync(join(tmpdir(), "agentd-screen-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [states, calls] = [join(folder, "states"), join(folder, "calls")];
  writeFileSync(states, `${JSON.stringify(first)}\n`);
  writeFileSync(calls, "");
  const command = ["sh", "-c", `"$@"; ${AFTERWARDS}`, "sh", ...scriptCommand(host, states, calls)];
  const terminal = await startTerminal({ command, columns, rows, env });
  return {
    terminal,
    push: (...next) => appendFileSync(states, next.map((state) => `${JSON.stringify(state)}\n`).join("")),
    calls: () =>
      readFileSync(calls, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as readonly unknown[]),
    [Symbol.asyncDispose]: () => terminal[Symbol.asyncDispose](),
  };
}

/** Waits until the screen was told of this size. Deno may lose the signal when the machine is busy: then once more. */
async function told({ terminal, calls }: Screen, columns: number, rows: number): Promise<void> {
  const wanted = JSON.stringify(["resize", columns, rows]);
  for (let looks = 1; !calls().some((call) => JSON.stringify(call) === wanted); looks++) {
    assert.ok(looks < 1_200, `${wanted} is not among ${JSON.stringify(calls())}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (looks % 60 > 0) continue;
    await terminal.resize(columns, rows + 1);
    await terminal.resize(columns, rows);
  }
}

/** That the terminal is as it was before: the cursor is there, what is typed is echoed, and a paste has no marks. */
async function assertRestored(terminal: Terminal, status: string): Promise<void> {
  await terminal.shows(`left with ${status}`);
  await terminal.shows(/^isig icanon echo$/m);
  assert.ok((await terminal.cursor()).isShown);
  await terminal.paste("pasted");
  await terminal.shows(/^pasted$/m);
}

test("the terminal is as it was before, however the screen ends", options, async (t) => {
  await t.test("asked to end", async () => {
    await using screen = await show(t, IDLE);
    await screen.terminal.shows("ctrl-d leaves");
    screen.push("end");
    await assertRestored(screen.terminal, "0");
    const left = await screen.terminal.history();
    assert.doesNotMatch(left, /ctrl-d leaves/);
    assert.match(left, /^agentd {2}Sums {2}\/code\/sums\n+the screen has ended$/m);
  });
  await t.test("by a crash", async () => {
    await using screen = await show(t, IDLE);
    await screen.terminal.shows("ctrl-d leaves");
    screen.push("crash");
    await screen.terminal.shows("crashed as told");
    await assertRestored(screen.terminal, "1");
  });
  await t.test("by SIGTERM", async () => {
    await using screen = await show(t, { ...IDLE, turn: TURN });
    await screen.terminal.shows("ctrl-c interrupts");
    await screen.terminal.signal("SIGTERM");
    await assertRestored(screen.terminal, "0");
  });
});

test(
  "a password is nowhere in the terminal, scrollback included, while and after it is typed",
  options,
  async (t) => {
    const sudo: Question = { kind: "sudo", id: "s1", command: "apt-get install tmux" };
    await using screen = await show(t, { ...IDLE, questions: [sudo] });
    const { terminal } = screen;
    await terminal.shows("what you type is not shown");
    await terminal.type("canary-hunter2");
    await terminal.paste("-pasted");
    await terminal.shows("••••••••");
    assert.doesNotMatch(await terminal.styled(), /canary|hunter|pasted/);
    await pressUntil(terminal, "Enter", /what you type is not shown/);
    screen.push(IDLE);
    await terminal.shows("ctrl-d leaves");
    assert.doesNotMatch(await terminal.styled(), /canary|hunter|pasted/);
    const answers = screen.calls().filter(([name]) => name === "answer");
    assert.deepEqual(answers, [["answer", "s1", { kind: "sudo", password: "canary-hunter2-pasted" }]]);
  },
);

test("with NO_COLOR a terminal gets no colours; without it, it does", options, async (t) => {
  for (const [env, isColoured] of [
    [{ NO_COLOR: "1" }, false],
    [{}, true],
  ] as const) {
    await using screen = await show(t, TALK, { rows: 50, env });
    await screen.terminal.shows(/nearly full[\s\S]*ctrl-d leaves/);
    const styled = await screen.terminal.styled();
    const codes = styled.split("\u{1b}[").map((part) => (part.split("m", 1)[0] ?? "").split(";"));
    // 30 to 37 are colours of text, 2 is faint; weights stay.
    assert.equal(
      codes.flat().some((code) => /^(?:3[0-7]|2)$/.test(code)),
      isColoured,
    );
    assert.ok(codes.flat().includes("1"));
  }
});

test("a narrow terminal, and one that is resized while a turn runs", options, async (t) => {
  const text = Array.from({ length: 12 }, (_, index) => `this is line number ${index} of the answer`).join(
    "\n",
  );
  const live = { kind: "assistant", id: "a9", text, status: "streaming" } as const;
  const settled = [{ kind: "user", id: "u1", text: "count the lines" }] as const;
  await using screen = await show(
    t,
    { ...IDLE, settled, turn: TURN, live: [live] },
    { columns: 100, rows: 30 },
  );
  const { terminal } = screen;
  await terminal.shows("number 11 of");
  let typed = "";
  for (const [columns, rows] of [
    [40, 30],
    [60, 15],
    [30, 12],
    [100, 40],
  ] as const) {
    await terminal.resize(columns, rows);
    await told(screen, columns, rows);
    await terminal.type("x");
    typed += "x";
    const screenText = await terminal.shows(
      new RegExp(`number 11 of[\\s\\S]*\\n› ${typed}\\n\\nlocal:sum-1[\\s\\S]*enter queues`),
    );
    for (const once of [/^› x+$/gm, /^local:sum-1/gm, /number 11 of/g]) {
      assert.equal(screenText.match(once)?.length, 1, `${once} at ${columns}x${rows}:\n${screenText}`);
    }
  }
  screen.push({ ...IDLE, settled: [...settled, { ...live, status: "complete" }] });
  await terminal.shows("enter sends");
  const history = await terminal.history();
  assert.match(history, /number 11 of/);
});

test(
  "an answer of ten thousand lines leaves the keys quick, and every line in the scrollback once",
  options,
  async (t) => {
    const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index} of the long answer`);
    const streaming = (count: number): ChatState => {
      const text = lines.slice(0, count).join("\n");
      return { ...IDLE, turn: TURN, live: [{ kind: "assistant", id: "a9", text, status: "streaming" }] };
    };
    await using screen = await show(t, streaming(1));
    const { terminal } = screen;
    await terminal.shows("line 0 of");
    for (let count = 500; count <= 9_500; count += 500) screen.push(streaming(count));
    await terminal.type("typed while it streams");
    await terminal.shows("› typed while it streams");
    const text = lines.join("\n");
    screen.push({ ...IDLE, settled: [{ kind: "assistant", id: "a9", text, status: "complete" }] });
    await terminal.shows(/line 9999 of the long answer\n[\s\S]*enter sends/);
    const history = await terminal.history();
    const numbers = Array.from(history.matchAll(/^ {2}line (\d+) of the long answer$/gm), ([, index]) =>
      Number(index),
    );
    assert.deepEqual(numbers, [...lines.keys()]);
  },
);
