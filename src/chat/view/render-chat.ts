/** Starts the screen. Touches the machine: the terminal is restored however the process ends. */
import process from "node:process";
import type { ChatScreen, RenderChat } from "../screen.ts";

/** Cursor shown, bracketed paste off, styles off. */
const RESTORE = "\u{1b}[?25h\u{1b}[?2004l\u{1b}[0m";

const CRASHES = ["error", "unhandledrejection"] as const;

/**
 * Shows the chat until its signal aborts. Resolves when the terminal is restored.
 *
 * @throws The error of the screen, or a TypeError if the input or output is not a terminal
 */
export const renderChat: RenderChat = async (screen) => {
  assertTerminal(screen);
  const { mount } = await withoutDevelopmentChecks(() => import("./mount.ts"));
  const ended = new AbortController();
  const restore = () => restoreTerminal(screen);
  const letGo = onWayOut(restore);
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
    letGo();
  }
};

/** Calls `restore` however the process ends. Returns a function that removes the listeners. */
function onWayOut(restore: () => void): () => void {
  process.on("exit", restore);
  // On a crash Deno fires events of the global scope instead of an exit event; Node has no such events.
  const scope: Partial<Pick<typeof globalThis, "addEventListener" | "removeEventListener">> = globalThis;
  for (const name of CRASHES) scope.addEventListener?.(name, restore);
  return () => {
    process.off("exit", restore);
    for (const name of CRASHES) scope.removeEventListener?.(name, restore);
  };
}

function assertTerminal({ input, output }: ChatScreen): void {
  if (input.isTTY && output.isTTY) return;
  throw new TypeError("The chat needs a terminal for its input and output.");
}

/** Synchronous, because nothing else runs while a process exits. */
function restoreTerminal({ input, output }: ChatScreen): void {
  if (input.isTTY && !input.destroyed) input.setRawMode(false);
  if (output.writable) output.write(RESTORE);
}

/**
 * React reads NODE_ENV once, when it is loaded; its development build is slower and leaks memory with every render. The
 * variable is restored, because child processes inherit it.
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
