/** The screen drawn by Ink to an output that is not a terminal, and keys pressed on it. */
import { PassThrough } from "node:stream";
import { render } from "ink";
import { createElement as h } from "react";
import type { ChatActions } from "../../../src/client/conversation/actions.ts";
import type { ChatState } from "../../../src/client/conversation/state.ts";
import { App } from "../../../src/chat/view/app.ts";
import type { KeyName } from "../../../src/chat/view/keys.ts";
import type { Line } from "../../../src/chat/view/text/line.ts";
import { Presenter, type Frame } from "../../../src/chat/view/presenter.ts";
import { NOW_MS } from "./states.ts";

export interface TestScreen extends Disposable {
  /** All that was printed and what is live, as Ink wrote it. */
  text(hasColour?: boolean): string;
  /** The last frame. */
  frame(): Frame;
  /** Lines printed for good so far. */
  readonly printed: readonly Line[];
  /** Frames drawn so far. */
  readonly frames: readonly Frame[];
  change(next: ChatState | ((state: ChatState) => ChatState)): void;
  /** `text:` types, everything else is the name of a key. */
  press(...presses: readonly (KeyName | `text:${string}`)[]): void;
  paste(text: string): void;
  resize(columns: number, rows: number): void;
  /** Lets the clock go on, and draws. */
  wait(ms: number): void;
  /** What was called of the actions but `edit` and `resize`. */
  readonly calls: readonly (readonly unknown[])[];
}

export interface TestScreenOptions {
  readonly columns?: number;
  readonly rows?: number;
  /** The user's editor. */
  readonly edit?: (text: string) => Promise<string>;
}

export function testScreen(
  first: ChatState,
  { columns = 80, rows = 40, edit }: TestScreenOptions = {},
): TestScreen {
  let [state, nowMs, size] = [first, NOW_MS, { columns, rows }];
  const calls: unknown[][] = [];
  const frames: Frame[] = [];
  const printed: Line[] = [];
  const ended = new AbortController();
  const quiet = new Set(["edit", "resize"]);
  const actions = new Proxy({} as ChatActions, {
    get:
      (_, name) =>
      (...args: readonly unknown[]) => {
        if (!quiet.has(String(name))) calls.push([name, ...args]);
      },
  });
  const show = (frame: Frame) => {
    if (frame.printSerial !== (frames.at(-1)?.printSerial ?? 0)) printed.push(...frame.print);
    frames.push(frame);
    presenter.drawn();
  };
  const store = { get: () => state, subscribe: () => () => undefined };
  const presenter = new Presenter({
    store,
    actions,
    size: () => size,
    show,
    ...(edit === undefined ? {} : { edit }),
    now: () => nowMs,
    signal: ended.signal,
  });
  presenter.start();
  const draw = () => presenter.resize();
  const frame = () => frames.at(-1) as Frame;
  return {
    frame,
    frames,
    printed,
    calls,
    text: (hasColour = false) => written({ ...frame(), print: printed }, size, hasColour),
    change(next) {
      state = typeof next === "function" ? next(state) : next;
      draw();
    },
    press(...presses) {
      for (const each of presses) {
        presenter.press(each.startsWith("text:") ? { text: each.slice(5) } : { key: each as KeyName });
      }
      draw();
    },
    paste(text) {
      presenter.paste(text);
      draw();
    },
    resize(width, height) {
      size = { columns: width, rows: height };
      draw();
    },
    wait(ms) {
      nowMs += ms;
      draw();
    },
    [Symbol.dispose]: () => ended.abort(),
  };
}

function written(
  frame: Frame,
  { columns, rows }: { columns: number; rows: number },
  hasColour: boolean,
): string {
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns, rows });
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode() {}, ref() {}, unref() {} });
  const chunks: string[] = [];
  stdout.on("data", (chunk: Buffer) => void chunks.push(chunk.toString()));
  const nothing = () => undefined;
  const app = h(App, {
    frame,
    hasColour,
    isLight: false,
    onSuspend: nothing,
    onPress: nothing,
    onPaste: nothing,
  });
  const options = { stdout, stdin, debug: true, patchConsole: false, exitOnCtrlC: false, interactive: true };
  const instance = render(app, options as unknown as Parameters<typeof render>[1]);
  instance.unmount();
  stdout.destroy();
  return chunks.findLast((chunk) => chunk.includes("\n"))?.trimEnd() ?? "";
}
