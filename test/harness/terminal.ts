/** A real terminal for a test: a program in tmux, keys sent to it, its screen read back. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";
import { programEnvironment } from "./program.ts";

const run = promisify(execFile);
/** How long a screen may take to show what a test waits for, on a machine with much to do. */
const MAX_WAIT_MS = 60_000;
const POLL_MS = 50;
const HISTORY_LINES = 50_000;

/** Why there is no terminal here; false if there is one. For the `skip` of a test. */
export const terminalIsMissing: string | false = await run("tmux", ["-V"]).then(
  () => false as const,
  () => "tmux is not installed (Debian: tmux)",
);

export interface TerminalOptions {
  readonly command: readonly string[];
  readonly columns?: number;
  readonly rows?: number;
  readonly cwd?: string;
  /** The program's environment beside what every program of the tests gets, TERM and the locale. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface Terminal extends AsyncDisposable {
  /** Keys in tmux's names (`Enter`, `C-c`, `Up`, `M-Enter`), one after the other. */
  press(...keys: readonly string[]): Promise<void>;
  /** Text as if typed. */
  type(text: string): Promise<void>;
  /** Text as a terminal hands over what was pasted. */
  paste(text: string): Promise<void>;
  resize(columns: number, rows: number): Promise<void>;
  /** What is visible; trailing blank lines are cut off. */
  screen(): Promise<string>;
  /** Scrollback and what is visible. */
  history(): Promise<string>;
  /** Like `history`, with the escape sequences of colours and weights. */
  styled(): Promise<string>;
  /** Waits until the visible screen holds the text or fits the pattern; returns it. */
  shows(wanted: string | RegExp): Promise<string>;
  /** Waits until the visible screen no longer does. */
  hides(unwanted: string | RegExp): Promise<string>;
  /** Waits until the screen stands still for some reads; for screens whose end no text tells. */
  settles(): Promise<string>;
  /** Waits for the end of the program; the exit status. */
  ended(): Promise<number>;
  /** To the processes that read the terminal's keys now. */
  signal(name: NodeJS.Signals): Promise<void>;
  /** `x,y` of the cursor, and whether it is shown. */
  cursor(): Promise<{ readonly x: number; readonly y: number; readonly isShown: boolean }>;
}

/** Starts the program in a tmux server of its own. */
export async function startTerminal(options: TerminalOptions): Promise<Terminal> {
  const { command, columns = 80, rows = 24, cwd = "/", env = {} } = options;
  const socket = `agentd-test-${randomUUID()}`;
  const tmux = async (...words: string[]) => {
    const { stdout } = await run("tmux", ["-u", "-L", socket, "-f", "/dev/null", ...words], {
      env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C.UTF-8", TERM: "xterm-256color" },
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout;
  };
  const variables = programEnvironment({ LC_ALL: "C.UTF-8", ...env });
  const line = [
    "env",
    "-i",
    "TERM=tmux-256color",
    ...Object.entries(variables).map(([name, value]) => quote(`${name}=${value}`)),
    ...command.map(quote),
  ].join(" ");
  const setup = ["set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "history-limit"];
  const size = ["-x", String(columns), "-y", String(rows)];
  await tmux(...setup, String(HISTORY_LINES), ";", "new-session", "-d", ...size, "-c", cwd, `exec ${line}`);
  return terminalOf(tmux);
}

function terminalOf(tmux: (...words: string[]) => Promise<string>): Terminal {
  const capture = async (...flags: string[]) => (await tmux("capture-pane", "-p", ...flags)).trimEnd();
  const fact = async (name: string) => (await tmux("display-message", "-p", `#{${name}}`)).trim();
  const holds = (screen: string, wanted: string | RegExp) =>
    typeof wanted === "string" ? screen.includes(wanted) : wanted.test(screen);
  const poll = async (what: string, isThere: (screen: string) => boolean) => {
    const endMs = Date.now() + MAX_WAIT_MS;
    for (;;) {
      const screen = await capture();
      if (isThere(screen)) return screen;
      const isDead = screen.includes("Pane is dead (");
      if (isDead) throw new Error(`${what}, and the program is gone; the screen:\n${screen}`);
      if (Date.now() > endMs) throw new Error(`${what} in ${MAX_WAIT_MS / 1000} s; the screen:\n${screen}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  };
  return {
    press: async (...keys) => void (await tmux("send-keys", ...keys)),
    type: async (text) => void (await tmux("send-keys", "-l", text)),
    async paste(text) {
      await tmux("set-buffer", "--", text);
      await tmux("paste-buffer", "-p", "-r");
    },
    resize: async (columns, rows) =>
      void (await tmux("resize-window", "-x", String(columns), "-y", String(rows))),
    screen: () => capture(),
    history: () => capture("-S", "-", "-E", "-"),
    styled: () => capture("-e", "-S", "-", "-E", "-"),
    shows: (wanted) => poll(`the screen did not show ${wanted}`, (screen) => holds(screen, wanted)),
    hides: (unwanted) => poll(`the screen still showed ${unwanted}`, (screen) => !holds(screen, unwanted)),
    async settles() {
      let [last, same] = ["", 0];
      return poll("the screen did not stand still", (screen) => {
        same = screen === last ? same + 1 : 0;
        last = screen;
        return same >= 5;
      });
    },
    async ended() {
      const endMs = Date.now() + MAX_WAIT_MS;
      const server = Number(await fact("pid"));
      for (;;) {
        // tmux 3.3 can miss the one signal that tells it of the end, and would leave the program a zombie.
        process.kill(server, "SIGCHLD");
        // The terminal is closed a moment before it is known how the program ended.
        const [status, signal] = [await fact("pane_dead_status"), await fact("pane_dead_signal")];
        if (status !== "") return Number(status);
        if (signal !== "") return 128 + Number(signal);
        if (Date.now() > endMs) throw new Error(`the program did not end; the screen:\n${await capture()}`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    async signal(name) {
      const tty = (await fact("pane_tty")).replace("/dev/", "");
      const { stdout } = await run("ps", ["-t", tty, "-o", "pid=,stat="]);
      const rows = stdout
        .trim()
        .split("\n")
        .map((row) => row.trim().split(/\s+/));
      // A plus marks the foreground; its last process is the one that the shell started.
      const [pid] = rows.findLast(([, state = ""]) => state.includes("+")) ?? [];
      process.kill(Number(pid), name);
    },
    async cursor() {
      const [x, y, flag] = await Promise.all([fact("cursor_x"), fact("cursor_y"), fact("cursor_flag")]);
      return { x: Number(x), y: Number(y), isShown: flag === "1" };
    },
    async [Symbol.asyncDispose]() {
      const socket = await fact("socket_path").catch(() => "");
      await tmux("kill-server").catch(() => undefined);
      // tmux leaves its socket behind.
      if (socket !== "") await rm(socket, { force: true });
    },
  };
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
