/** Renders the chat with Ink on a terminal. */
import { render, type Instance } from "ink";
import { createElement as h } from "react";
import type { ChatScreen } from "../screen.ts";
import { App, type Suspend } from "./app.ts";
import { lineWidth } from "./text/line.ts";
import { MAX_FPS, Presenter, type Frame } from "./presenter.ts";

/** Cursor home and erase the screen; the scrollback stays. */
const CLEAR = "\u{1b}[H\u{1b}[J";
const FALLBACK_COLUMNS = 80;
const FALLBACK_ROWS = 24;

interface Mounted {
  /** Resolves when the screen is unmounted and everything is written; rejects with its error. */
  readonly gone: Promise<unknown>;
  /** Removes the live lines and restores the terminal. */
  readonly unmount: () => void;
}

/** Shows the chat until `unmount`, or until something throws. */
export function mount(screen: ChatScreen, signal: AbortSignal): Mounted {
  const { store, actions, input, output, hasColour, isLight = false, editText } = screen;
  let instance: Instance | undefined;
  let last: Frame | undefined;
  let suspend: Suspend | undefined;
  const draw = (frame: Frame) => {
    if (frame.isResized && last !== undefined) eraseReflowed(instance, output, last);
    last = frame;
    if (frame.isNew) clear(instance, output);
    const app = h(App, {
      frame,
      hasColour,
      isLight,
      onSuspend: (given) => {
        suspend = given;
      },
      onPress: (press) => presenter.press(press),
      onPaste: (text) => presenter.paste(text),
    });
    if (instance === undefined)
      instance = render(
        app,
        optionsOf(screen, () => presenter.drawn()),
      );
    else instance.rerender(app);
  };
  const size = () => ({ columns: output.columns || FALLBACK_COLUMNS, rows: output.rows || FALLBACK_ROWS });
  const edit = async (text: string) => {
    let edited = text;
    await suspend?.(async () => {
      edited = (await editText?.(text)) ?? text;
    });
    return edited;
  };
  const presenter = new Presenter({ store, actions, size, show: draw, edit, now: Date.now, signal });
  const onResize = () => presenter.resize();
  // Runs before Ink's own listener, which redraws the current frame: it must have the new size.
  output.on("resize", onResize);
  signal.addEventListener("abort", () => void output.off("resize", onResize));
  presenter.start();
  return {
    gone: (instance as Instance | undefined)?.waitUntilExit() ?? Promise.resolve(),
    unmount() {
      if (last !== undefined) draw({ ...last, isNew: false, isResized: false, lines: [], cursor: undefined });
      instance?.unmount();
      input.pause();
    },
  };
}

/**
 * Erases the frame after a resize. Terminals rewrap lines that have become too long and keep the cursor at its
 * character; Ink does not count these rows.
 */
function eraseReflowed(
  instance: Instance | undefined,
  output: NodeJS.WriteStream,
  { lines, cursor }: Frame,
): void {
  const columns = output.columns || FALLBACK_COLUMNS;
  const above = cursor === undefined ? lines : lines.slice(0, cursor.y);
  const added = above.reduce((rows, line) => rows + Math.max(0, Math.ceil(lineWidth(line) / columns) - 1), 0);
  const up = added + Math.floor((cursor?.x ?? 0) / columns);
  if (up > 0) output.write(`\u{1b}[${up}A`);
  instance?.clear();
}

function optionsOf({ input, output }: ChatScreen, onRender: () => void) {
  return {
    stdin: input,
    stdout: output,
    // Ctrl-C is a key of the chat, and Ink must also render in CI.
    exitOnCtrlC: false,
    interactive: true,
    incrementalRendering: true,
    maxFps: MAX_FPS,
    patchConsole: true,
    isScreenReaderEnabled: false,
    onRender,
  };
}

function clear(instance: Instance | undefined, output: NodeJS.WriteStream): void {
  instance?.clear();
  output.write(CLEAR);
}
