import { abortable, systemClock, waitAtMost } from "../../../base/time.ts";
import { createId, shorten, toOneLine } from "../../../base/text.ts";
import { redact, secretTail } from "../../../base/observe.ts";
import { OutputRing } from "../../../exec/output.ts";
import type { OpenSandbox } from "../../../exec/sandbox/service.ts";
import {
  type CommandEnd,
  InputClosedError,
  type RunningCommand,
  startCommand,
} from "../../../exec/process-group.ts";
import {
  closedObject,
  flag,
  freeText,
  nonEmptyText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolIntent,
} from "../../tool/tool.ts";

interface StartOptions {
  readonly sessionId: string;
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Closed when the process has ended. */
  readonly sandbox?: OpenSandbox | undefined;
}

/** A background process as shown in lists. */
export interface ProcessView {
  readonly id: string;
  readonly sessionId: string;
  readonly command: string;
  readonly startedAtMs: number;
  /** Undefined while the process runs. */
  readonly end: CommandEnd | undefined;
}

interface Entry extends ProcessView {
  end: CommandEnd | undefined;
  readonly output: OutputRing;
  readonly running: RunningCommand;
  readonly ended: Promise<void>;
  /** Wakes callers that wait for output. */
  readonly waiters: Set<() => void>;
  /** The end of the output so far, which may be the start of a secret. */
  unredacted: string;
}

const MAX_FINISHED = 64;
const MAX_UNREAD_BYTES = 262_144;

/** The background processes of this server. Each belongs to a session and stops with the server at the latest. */
export class Processes {
  readonly #max: number;
  readonly #entries = new Map<string, Entry>();
  #closed = false;

  /** Runs at most `maxRunning` processes at once over all sessions. */
  constructor({ maxRunning }: { readonly maxRunning: number }) {
    this.#max = maxRunning;
  }

  /** Starts a command in its own process group. Throws ToolError at the limit. */
  start(options: StartOptions): ProcessView {
    if (this.#closed) throw new ToolError("The server is shutting down.");
    const running = [...this.#entries.values()].filter(({ end }) => end === undefined).length;
    if (running >= this.#max) {
      throw new ToolError(
        `${running} background processes are running; the limit is ${this.#max} (terminal.max_background). Kill one first.`,
      );
    }
    const id = createId("prc");
    const output = new OutputRing(MAX_UNREAD_BYTES);
    const command = startCommand(options.command, {
      cwd: options.cwd,
      env: options.env,
      confine: options.sandbox?.confine,
      limits: options.sandbox?.limits,
      onOutput: (bytes) => {
        output.push(bytes);
        for (const wake of entry.waiters) wake();
      },
    });
    const ended = command.end.then(
      (end) => void (entry.end = end),
      () => void (entry.end = NOT_STARTED),
    );
    void ended.finally(() => options.sandbox?.close());
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
      unredacted: "",
    };
    this.#entries.set(id, entry);
    this.#forget();
    return entry;
  }

  /** Returns processes in the order of their start; without a session those of all sessions. */
  list(options: { readonly sessionId?: string } = {}): readonly ProcessView[] {
    const { sessionId } = options;
    return [...this.#entries.values()].filter(
      (entry) => sessionId === undefined || entry.sessionId === sessionId,
    );
  }

  /** Returns the output since the last poll and the state. Throws ToolError when the session has no such process. */
  poll(id: string, sessionId: string): { readonly output: string; readonly view: ProcessView } {
    const entry = this.#find(id, sessionId);
    const text = entry.unredacted + entry.output.take(entry.end !== undefined);
    const tail = entry.end === undefined ? secretTail(text) : 0;
    entry.unredacted = text.slice(text.length - tail);
    return { output: redact(text.slice(0, text.length - tail)), view: entry };
  }

  /** Resolves when the process has ended or the time is up; with `orOutput` also on new output. */
  async wait(
    id: string,
    sessionId: string,
    options: { readonly timeoutMs: number; readonly orOutput?: boolean; readonly signal: AbortSignal },
  ): Promise<void> {
    const entry = this.#find(id, sessionId);
    const { signal, timeoutMs, orOutput = false } = options;
    signal.throwIfAborted();
    const printed = Promise.withResolvers<void>();
    if (orOutput && !entry.output.isEmpty) printed.resolve();
    if (orOutput) entry.waiters.add(printed.resolve);
    try {
      const news = Promise.race([entry.ended, printed.promise]);
      await waitAtMost(systemClock, timeoutMs, abortable(news, signal));
    } finally {
      entry.waiters.delete(printed.resolve);
    }
  }

  /** Writes to standard input. Throws ToolError when the process has ended or its input is closed. */
  async write(
    id: string,
    sessionId: string,
    text: string,
    options: { readonly close: boolean },
  ): Promise<void> {
    const entry = this.#find(id, sessionId);
    if (entry.end !== undefined) throw new ToolError(`The process ${id} has ended.`);
    await entry.running.write(text, options).catch((error: unknown) => {
      throw error instanceof InputClosedError ? new ToolError("The process accepts no more input.") : error;
    });
  }

  /**
   * Stops the process group (SIGTERM, then SIGKILL) and resolves when it is gone. Resolves to false when it had already
   * ended.
   */
  async kill(id: string, sessionId: string): Promise<boolean> {
    const entry = this.#find(id, sessionId);
    if (entry.end !== undefined) return false;
    entry.running.stop();
    await entry.ended;
    return true;
  }

  /** Stops all processes, or those of one session. Resolves to their number. */
  async killAll(options: { readonly sessionId?: string } = {}): Promise<number> {
    const running = this.list(options).filter(({ end }) => end === undefined);
    const killed = await Promise.all(running.map(({ id, sessionId }) => this.kill(id, sessionId)));
    return killed.filter(Boolean).length;
  }

  /** Stops all processes and refuses new ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.killAll();
    this.#entries.clear();
  }

  #find(id: string, sessionId: string): Entry {
    const entry = this.#entries.get(id);
    if (entry?.sessionId === sessionId) return entry;
    throw new ToolError(`No process has the id ${JSON.stringify(id)}. List the processes to see their ids.`);
  }

  /** Keeps recently ended processes for a last poll and drops the oldest. */
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

interface ProcessInput {
  readonly action: "list" | "poll" | "wait" | "write" | "kill";
  readonly process_id?: string;
  readonly text?: string;
  readonly close_input?: boolean;
  readonly timeout_seconds?: number;
}

const MAX_WAIT_SECONDS = 300;
const DEFAULT_WAIT_SECONDS = 30;
const MAX_TEXT_CHARACTERS = 65_536;
/** A process that does not read its input blocks the writer. */
const WRITE_TIMEOUT_MS = 5_000;
const SHOWN_CHARACTERS = 120;

/** The tool that controls background processes. */
export function createProcess(processes: Processes): Tool {
  return defineTool<ProcessInput>({
    name: "process",
    toolset: "terminal",
    kind: "execute",
    description:
      "Controls processes that terminal started in the background: list them; poll one for new output; wait for it to " +
      "end; write to its standard input; kill it with everything it started.",
    parameters: closedObject(
      {
        action: { type: "string", enum: ["list", "poll", "wait", "write", "kill"] },
        process_id: nonEmptyText(64, "Required for all actions but list."),
        text: freeText(MAX_TEXT_CHARACTERS, "For write. End a line with a line feed."),
        close_input: flag("For write: close the input afterwards. Default false."),
        timeout_seconds: {
          type: "number",
          exclusiveMinimum: 0,
          maximum: MAX_WAIT_SECONDS,
          description: `For wait. Default ${DEFAULT_WAIT_SECONDS}.`,
        },
      },
      ["action"],
    ),
    inspect,
    run: (input, context) => run(input, context, processes),
  });
}

/** Input may reach a shell, so the policy evaluates it like a command. */
function inspect({ action, process_id, text }: ProcessInput): ToolIntent {
  const about = `Process: ${action} ${process_id ?? ""}`.trim();
  if (action === "kill") return { kind: "tool", effect: "own", title: about };
  if (action !== "write" || text === undefined) return { kind: "tool", effect: "none", title: about };
  return { kind: "command", title: `${about}: ${line(text)}`, command: text };
}

async function run(input: ProcessInput, context: ToolContext, processes: Processes): Promise<string> {
  const { sessionId, signal } = context;
  if (input.action === "list") return list(processes.list({ sessionId }));
  const id = input.process_id;
  if (id === undefined)
    throw new ToolError(`${input.action} needs process_id. List the processes to see their ids.`);
  switch (input.action) {
    case "wait": {
      const timeoutMs = (input.timeout_seconds ?? DEFAULT_WAIT_SECONDS) * 1000;
      await processes.wait(id, sessionId, { timeoutMs, signal });
      return look(processes, id, sessionId);
    }
    case "write":
      await write(processes, { id, sessionId, input });
      return look(processes, id, sessionId);
    case "kill": {
      const killed = await processes.kill(id, sessionId);
      return `${killed ? "Killed." : "It had already ended."}\n${look(processes, id, sessionId)}`;
    }
    case "poll":
      return look(processes, id, sessionId);
  }
}

async function write(
  processes: Processes,
  { id, sessionId, input }: { readonly id: string; readonly sessionId: string; readonly input: ProcessInput },
): Promise<void> {
  const { text = "", close_input: close = false } = input;
  if (text === "" && !close) throw new ToolError("write needs text, or close_input.");
  const written = processes.write(id, sessionId, text, { close }).then(() => true);
  if (await waitAtMost(systemClock, WRITE_TIMEOUT_MS, written)) return;
  throw new ToolError("The process does not read its input; part of the text was not accepted.");
}

function look(processes: Processes, id: string, sessionId: string): string {
  const { output, view } = processes.poll(id, sessionId);
  return `${stateOf(view)}\n${output === "" ? "No new output." : `New output:\n${output}`}`;
}

function list(views: readonly ProcessView[]): string {
  if (views.length === 0) return "No background processes exist.";
  return views.map((view) => `${view.id}  ${stateOf(view)}  ${line(view.command)}`).join("\n");
}

function stateOf({ end, startedAtMs }: ProcessView): string {
  if (!end) return `Running for ${Math.round((Date.now() - startedAtMs) / 1000)} s.`;
  return end.exitCode === undefined
    ? `Ended by ${end.signalName ?? "a signal"}.`
    : `Ended with exit code ${end.exitCode}.`;
}

function line(text: string): string {
  return shorten(toOneLine(text), SHOWN_CHARACTERS);
}
