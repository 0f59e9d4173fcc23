/** The door of the screen. Touches the machine: the terminal is put back on every way out of the process. */
import process from "node:process";
import type { ChatScreen, RenderChat } from "../screen.ts";

/** Cursor shown, bracketed paste off, styles off. */
const RESTORE = "\u{1b}[?25h\u{1b}[?2004l\u{1b}[0m";

/**
 * Shows the chat until its signal ends it. Resolves when the terminal is as it was before.
 *
 * @throws What broke the screen, or a TypeError if the input or output is no terminal
 */
export const renderChat: RenderChat = async (screen) => {
  assertTerminal(screen);
  const { mount } = await withoutDevelopmentChecks(() => import("./mount.ts"));
  const ended = new AbortController();
  const restore = () => restoreTerminal(screen);
  process.on("exit", restore);
  try {
    if (screen.signal.aborted) return;
    const mounted = mount(screen, ended.signal);
    const end = () => {
      ended.abort();
      mounted.unmount();
    };
    screen.signal.addEventListener("abort", end, { once: true, signal: ended.signal });
    await mounted.gone;
  } finally {
    ended.abort();
    restore();
    process.off("exit", restore);
  }
};

function assertTerminal({ input, output }: ChatScreen): void {
  if (input.isTTY && output.isTTY) return;
  throw new TypeError("the chat's screen needs a terminal for its input and its output");
}

/** Synchronous, as nothing else runs while a process ends. */
function restoreTerminal({ input, output }: ChatScreen): void {
  if (input.isTTY && !input.destroyed) input.setRawMode(false);
  if (output.writable) output.write(RESTORE);
}

/**
 * React reads NODE_ENV once, as it is loaded; its development build is slower and notes every render for ever. The
 * variable is put back, as programs that the chat starts inherit it.
 */
async function withoutDevelopmentChecks<Module>(load: () => Promise<Module>): Promise<Module> {
  const before = process.env["NODE_ENV"];
  process.env["NODE_ENV"] = before ?? "production";
  try {
    return await load();
  } finally {
    if (before === undefined) delete process.env["NODE_ENV"];
  }
}
