import { createId } from "../../../base/ids.ts";
import { redact, secretTail } from "../../../base/observe/redact.ts";
import { ToolError } from "../../tool/tool.ts";
import { OutputRing } from "../../../exec/output-ring.ts";
import {
  InputClosedError,
  startCommand,
  type CommandEnd,
  type RunningCommand,
} from "../../../exec/process-group.ts";

export interface StartOptions {
  readonly sessionId: string;
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A background process as lists show it. */
export interface ProcessView {
  readonly id: string;
  readonly sessionId: string;
  readonly command: string;
  readonly startedAtMs: number;
  /** Undefined while it runs. */
  readonly end: CommandEnd | undefined;
}

interface Entry extends ProcessView {
  end: CommandEnd | undefined;
  readonly output: OutputRing;
  readonly running: RunningCommand;
  readonly ended: Promise<void>;
  /** Wakes those who wait for output. */
  readonly waiters: Set<() => void>;
  /** The end of what was read, while it may be the beginning of a secret. */
  held: string;
}

const MAX_FINISHED = 64;
const MAX_UNREAD_BYTES = 262_144;

/** The background processes of this server. Each belongs to its session, and ends with the server at the latest. */
export class Processes {
  readonly #max: number;
  readonly #entries = new Map<string, Entry>();
  #closed = false;

  /** At most `maxRunning` at once, over all sessions. */
  constructor({ maxRunning }: { readonly maxRunning: number }) {
    this.#max = maxRunning;
  }

  /** Starts a command in a process group of its own. ToolError at the limit. */
  start(options: StartOptions): ProcessView {
    if (this.#closed) throw new ToolError("The server is shutting down.");
    const running = [...this.#entries.values()].filter(({ end }) => end === undefined).length;
    if (running >= this.#max) {
      throw new ToolError(
        `${running} background processes run, which is the limit (terminal.max_background). Kill one first.`,
      );
    }
    const id = createId("prc");
    const output = new OutputRing(MAX_UNREAD_BYTES);
    const command = startCommand(options.command, {
      cwd: options.cwd,
      env: options.env,
      onOutput: (bytes) => {
        output.push(bytes);
        for (const wake of entry.waiters) wake();
      },
    });
    const ended = command.end.then(
      (end) => void (entry.end = end),
      () => void (entry.end = NOT_STARTED),
    );
    const { sessionId } = options;
    const entry: Entry = {
      id,
      sessionId,
      command: options.command,
      startedAtMs: Date.now(),
      end: undefined,
      output,
      running: command,
      ended,
      waiters: new Set(),
      held: "",
    };
    this.#entries.set(id, entry);
    this.#forget();
    return entry;
  }

  /** In the order in which they were started; without a session those of all. */
  list(options: { readonly sessionId?: string } = {}): readonly ProcessView[] {
    const { sessionId } = options;
    return [...this.#entries.values()].filter(
      (entry) => sessionId === undefined || entry.sessionId === sessionId,
    );
  }

  /** What it printed since the last look, and whether it ended. ToolError when the session has no such process. */
  poll(id: string, sessionId: string): { readonly output: string; readonly view: ProcessView } {
    const entry = this.#find(id, sessionId);
    const text = entry.held + entry.output.take(entry.end !== undefined);
    const tail = entry.end === undefined ? secretTail(text) : 0;
    entry.held = text.slice(text.length - tail);
    return { output: redact(text.slice(0, text.length - tail)), view: entry };
  }

  /** Resolves when it has ended or the time is over; with `orOutput` also when it printed something. */
  async wait(
    id: string,
    sessionId: string,
    options: { readonly timeoutMs: number; readonly orOutput?: boolean; readonly signal: AbortSignal },
  ): Promise<void> {
    const entry = this.#find(id, sessionId);
    const { signal, timeoutMs, orOutput = false } = options;
    signal.throwIfAborted();
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(timeout.resolve, timeoutMs);
    const onAbort = () => timeout.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const printed = Promise.withResolvers<void>();
    if (orOutput && !entry.output.isEmpty) printed.resolve();
    if (orOutput) entry.waiters.add(printed.resolve);
    try {
      await Promise.race([entry.ended, timeout.promise, printed.promise]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      entry.waiters.delete(printed.resolve);
    }
  }

  /** Writes to its standard input. ToolError when it has ended or takes no more. */
  async write(
    id: string,
    sessionId: string,
    text: string,
    options: { readonly close: boolean },
  ): Promise<void> {
    const entry = this.#find(id, sessionId);
    if (entry.end !== undefined) throw new ToolError(`The process ${id} has ended.`);
    await entry.running.write(text, options).catch((error: unknown) => {
      throw error instanceof InputClosedError ? new ToolError("The process takes no more input.") : error;
    });
  }

  /** Ends the whole process group, first kindly; resolves when it is gone. False when it had ended. */
  async kill(id: string, sessionId: string): Promise<boolean> {
    const entry = this.#find(id, sessionId);
    if (entry.end !== undefined) return false;
    entry.running.stop();
    await entry.ended;
    return true;
  }

  /** Ends all, or those of one session. Resolves to how many were ended. */
  async killAll(options: { readonly sessionId?: string } = {}): Promise<number> {
    const running = this.list(options).filter(({ end }) => end === undefined);
    const killed = await Promise.all(running.map(({ id, sessionId }) => this.kill(id, sessionId)));
    return killed.filter(Boolean).length;
  }

  /** Ends all; none can be started any more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.killAll();
    this.#entries.clear();
  }

  #find(id: string, sessionId: string): Entry {
    const entry = this.#entries.get(id);
    if (entry?.sessionId === sessionId) return entry;
    throw new ToolError(`There is no process ${JSON.stringify(id)}. List the processes to see their ids.`);
  }

  /** Ended processes are kept for a last look, the oldest go. */
  #forget(): void {
    const ended = [...this.#entries.values()].filter(({ end }) => end !== undefined);
    for (const { id } of ended.slice(0, Math.max(0, ended.length - MAX_FINISHED))) this.#entries.delete(id);
  }
}

const NOT_STARTED: CommandEnd = {
  exitCode: undefined,
  signalName: undefined,
  stoppedBy: undefined,
  leftovers: false,
};
