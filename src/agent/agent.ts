/** The agent that all surfaces use, and its slash commands. */
import { shorten } from "../base/text.ts";
import type { RunUsage } from "../../generated/http/client/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { SessionRow } from "../store/schema/tables.ts";
import { followRun, findRun, isFinalStatus, type RunView, type Submitted } from "./run/run.ts";
import { contextUse, resetContext, type ContextUse } from "./session/transcript.ts";
import { endRuns } from "./run/control.ts";
import { LiveSessions, type SessionMode, settingsOf } from "./session/session.ts";
import { formatModel } from "./model.ts";
import type { AgentDeps } from "./deps.ts";
import { Recovery } from "./recovery/recovery.ts";
import { Sessions } from "./session/sessions.ts";
import { Titles } from "./session/titles.ts";
import { RunScheduler } from "./run/scheduler.ts";
import { nearest } from "../base/suggest.ts";
import { decide, type PolicyDecision } from "./question/policy/policy.ts";
import { policyNow } from "./run/prompt.ts";

export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** The status of a session. */
export interface SessionStatus {
  readonly session: SessionRow;
  /** The running run, if this process runs it. */
  readonly runId: string | undefined;
  readonly isBusy: boolean;
  /** Effective `provider:model`. */
  readonly model: string;
  readonly reasoningEffort: string | undefined;
  /** Approvals are off: for the session, for all sessions, or by the configuration. */
  readonly yolo: boolean;
  /** Undefined: the configuration decides. */
  readonly mode: SessionMode | undefined;
  readonly cwd: string;
  readonly queueLength: number;
  readonly openQuestions: number;
  readonly usage: RunUsage | undefined;
}

/** The result of a requested compression. */
export interface CompressionResult {
  readonly status: "compressed" | "noop" | "failed";
  readonly beforeMessages: number;
  readonly afterMessages: number;
  readonly beforeTokens: number;
  readonly afterTokens: number;
  readonly note?: string;
}

/** The agent that all surfaces use: its services, and the operations that need several of them. */
export class Agent {
  readonly deps: AgentDeps;
  readonly runs: RunScheduler;
  readonly sessions: Sessions;
  readonly live: LiveSessions;
  readonly titles: Titles;
  readonly #recovery: Recovery;

  constructor(deps: AgentDeps, options: { readonly maxLiveSessions: number }) {
    this.deps = deps;
    this.sessions = new Sessions(deps.store, (rows) => this.#recovery.settle(rows));
    this.runs = new RunScheduler(deps, { onEnd: (run, prompt) => this.titles.consider(run, prompt) });
    this.titles = new Titles(deps, this.sessions, this.runs);
    this.live = new LiveSessions({ clock: deps.clock, max: options.maxLiveSessions });
    this.#recovery = new Recovery(deps, this.runs);
  }

  /**
   * Starts to renew this process's leases and, in the background, to close the runs of dead processes. Prompts to sessions
   * that are not recovered yet wait in their queues.
   */
  start(): void {
    this.#recovery.start();
  }

  /** Resolves when the runs that dead processes left open at {@link start} are closed, or the agent is stopped. */
  get recovered(): Promise<void> {
    return this.#recovery.recovered;
  }

  get isRecovered(): boolean {
    return this.#recovery.isRecovered;
  }

  /**
   * Closes the runs that dead processes left open in these sessions, before they are read, so that no dead run is shown as
   * running. {@link Sessions.saved} does the same for one session. False: all of them are alive, and earlier reads are
   * current. ServiceError `state_store_unavailable`.
   */
  async settle(sessionIds: readonly string[]): Promise<boolean> {
    if (sessionIds.length === 0) return false;
    const rows = await this.sessions.reads.leased(sessionIds);
    const isSettled = await this.#recovery.settle(rows);
    return isSettled || rows.length < sessionIds.length;
  }

  /**
   * Returns a run of `owner`, undefined: of any owner, after recovery if its process is dead. ServiceError `run_not_found`.
   */
  async findRun(runId: string, owner: string | undefined): Promise<RunView> {
    const { store } = this.deps;
    const run = await findRun(store, runId, owner);
    if (isFinalStatus(run.status) || this.runs.isAtWork(runId)) return run;
    // Recovery may have changed the run between the two reads: only a later read is current.
    await this.settle([run.session_id]);
    return findRun(store, runId, owner);
  }

  /** Stops the background work. Drain the runs first. */
  async stop(): Promise<void> {
    await this.titles.stop();
    await this.#recovery.stop();
  }

  /** Returns the status of a session. ServiceError `session_not_found`. */
  async status(sessionId: string, owner: string): Promise<SessionStatus> {
    const { deps } = this;
    const session = await this.sessions.get(sessionId, owner);
    const chosen = settingsOf(session);
    const own = session.model === null ? undefined : deps.models.resolve(session.model);
    const open = await deps.questions.open({ sessionId });
    return {
      session,
      runId: this.runs.runningIn(sessionId),
      isBusy: session.lease_owner !== null,
      model: formatModel(own ?? deps.models.default),
      reasoningEffort: chosen.reasoningEffort ?? deps.settings.reasoningEffort,
      yolo: chosen.yolo === true || deps.switches.yolo || deps.settings.policyMode === "yolo",
      mode: chosen.mode,
      cwd: session.cwd ?? deps.settings.workspace,
      queueLength: session.queued,
      openQuestions: open.length,
      usage: this.sessions.usage(session),
    };
  }

  /** Decides whether a command may run in `cwd` without approval, as it would for the terminal tool. */
  async reviewCommand(
    command: string,
    { cwd: workspace, sessionId }: { readonly cwd: string; readonly sessionId: string | undefined },
  ): Promise<Pick<PolicyDecision, "outcome" | "reason">> {
    const { settings, switches } = this.deps;
    const { userHome: home, agentHome, allowedCommands: allow } = settings;
    const mode = switches.yolo ? "yolo" : settings.policyMode;
    const policy = { mode, workspace, home, agentHome, allow } as const;
    const context = sessionId === undefined ? policy : await policyNow(this.deps, policy, sessionId);
    return decide({ kind: "command", title: command, command }, context, "terminal");
  }

  /** Sets the model of a session from its next turn on. Resolves to its full name. ServiceError `model_not_found`. */
  async chooseModel(sessionId: string, owner: string, name: string): Promise<string> {
    const ref = this.deps.models.resolve(name);
    if (!ref) {
      const known = this.deps.models.providers.map((provider) => provider.name).join(", ");
      throw new ServiceError(
        "model_not_found",
        `Unknown model ${JSON.stringify(name)}. Write it as provider:model; the providers are: ${known}.`,
        { param: "model" },
      );
    }
    const model = formatModel(ref);
    await this.sessions.choose(sessionId, owner, { model });
    return model;
  }

  /** Sets the reasoning effort of a session; null: the default. ServiceError `invalid_request` for an unknown effort. */
  async chooseEffort(sessionId: string, owner: string, effort: string | null): Promise<void> {
    if (effort !== null && !EFFORTS.some((known) => known === effort)) {
      throw new ServiceError("invalid_request", `reasoning_effort must be one of: ${EFFORTS.join(", ")}.`, {
        param: "reasoning_effort",
      });
    }
    await this.sessions.choose(sessionId, owner, { reasoningEffort: effort });
  }

  /**
   * Runs a prompt beside the session, in a new context with the session's model and directory. The session gets its end as
   * `background.complete`. Calls that require approval are denied, since no person watches the run.
   */
  async background(sessionId: string, owner: string, text: string): Promise<Submitted> {
    const session = await this.sessions.get(sessionId, owner);
    const model = session.model === null ? undefined : this.deps.models.resolve(session.model);
    return this.runs.submit({
      address: { owner },
      seed: {
        source: "background",
        parentId: sessionId,
        settings: settingsOf(session),
        ...(session.cwd === null ? {} : { cwd: session.cwd }),
      },
      kind: "background",
      input: {
        prompt: [{ role: "user", text }],
        settings: {},
        answerable: false,
        notifySessionId: sessionId,
      },
      ...(model ? { model } : {}),
    });
  }

  /**
   * Compresses an idle session, as a run of its own. ServiceError `session_busy`, `session_not_found`, and the error of a
   * failed run.
   */
  async compress(
    sessionId: string,
    owner: string,
    options: { readonly focus?: string; readonly signal?: AbortSignal } = {},
  ): Promise<CompressionResult> {
    await this.sessions.get(sessionId, owner);
    const { focus, signal } = options;
    const { runId } = await this.runs.submit({
      address: { owner, id: sessionId },
      seed: { source: "embed" },
      kind: "compression",
      whenBusy: "reject",
      input: { prompt: [], settings: {}, answerable: false, ...(focus === undefined ? {} : { focus }) },
    });
    const onAbort = () => void this.runs.stop(runId, "The compression was cancelled.");
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    try {
      return await this.#compressionOf(runId);
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Returns how full the context of a session is. Cached until its messages change. */
  contextUse(row: SessionRow): Promise<ContextUse> {
    return contextUse(this.deps, row);
  }

  /**
   * Stops all running and queued runs of a session, in whichever process. Resolves to true when all have ended, to false
   * when some have not after `timeoutMs`.
   */
  endRuns(
    sessionId: string,
    options: { readonly reason: string; readonly by?: string; readonly timeoutMs: number },
  ): Promise<boolean> {
    return endRuns(this, sessionId, options);
  }

  /** Empties the model's context; the transcript stays. ServiceError `session_busy`. */
  async reset(sessionId: string, owner: string): Promise<void> {
    await this.sessions.get(sessionId, owner);
    await this.deps.store.write((tx) => resetContext(tx, sessionId));
  }

  async #compressionOf(runId: string): Promise<CompressionResult> {
    let result: CompressionResult | undefined;
    for await (const { type, data } of followRun(this.deps.store, runId)) {
      if (type === "compression.completed") result = toResult(data);
      if (type === "run.failed") {
        const { message } = data["error"] as { readonly message: string };
        throw new ServiceError("provider_error", message);
      }
    }
    return result ?? { status: "failed", ...NO_COUNTS, note: "The compression was stopped." };
  }
}

const NO_COUNTS = { beforeMessages: 0, afterMessages: 0, beforeTokens: 0, afterTokens: 0 };

function toResult(data: Readonly<Record<string, unknown>>): CompressionResult {
  return {
    status: data["status"] as CompressionResult["status"],
    beforeMessages: Number(data["before_messages"]),
    afterMessages: Number(data["after_messages"]),
    beforeTokens: Number(data["before_tokens"]),
    afterTokens: Number(data["after_tokens"]),
    ...(data["note"] === undefined ? {} : { note: String(data["note"]) }),
  };
}

/** What the surface does with a command's outcome. */
export type Directive =
  /** Shows the text. With `sessionId` the surface continues in that session. */
  | { readonly type: "exec"; readonly output: string; readonly sessionId?: string }
  /** Runs another command. */
  | { readonly type: "alias"; readonly target: string }
  /** Submits a message that loads a skill. */
  | { readonly type: "skill"; readonly name: string; readonly message: string }
  /** Submits a message. `whenBusy` says what happens to it during a run. Default: as for any prompt. */
  | {
      readonly type: "send";
      readonly message: string;
      readonly notice?: string;
      readonly whenBusy?: "queue";
    }
  /** Puts a message into the input field. */
  | { readonly type: "prefill"; readonly message: string; readonly notice?: string };

export interface CommandCall {
  readonly agent: Agent;
  readonly owner: string;
  readonly sessionId?: string;
  /** The folder whose own commands apply. Default: the workspace. */
  readonly cwd?: string;
  /** The text after the name, trimmed. */
  readonly args: string;
  readonly signal?: AbortSignal;
}

export interface Command {
  /** Without the slash. */
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly description: string;
  readonly category: CommandCategory;
  /** The arguments, such as `<title>`. */
  readonly hint?: string;
  readonly subcommands?: readonly string[];
  run(call: CommandCall): Promise<Directive>;
}

type CommandCategory = "Conversation" | "Session" | "Model" | "Tools" | "Help" | "Your own" | "Skills";

interface ParsedCommand {
  readonly name: string;
  readonly args: string;
}

/** Returns the current commands of one source. */
type CommandSource = (cwd?: string) => readonly Command[] | Promise<readonly Command[]>;

const MAX_ARGUMENT_CHARACTERS = 100_000;
const MAX_SHOWN_NAME = 64;

/** Parses `/name arguments`; returns undefined for other text. */
export function parseCommand(text: string): ParsedCommand | undefined {
  const match = /^\s*\/([a-z0-9][a-z0-9_-]*)(?:\s+([\s\S]*))?$/i.exec(text);
  return match ? { name: (match[1] ?? "").toLowerCase(), args: (match[2] ?? "").trim() } : undefined;
}

/**
 * The catalogue of slash commands: the built-in ones, those of the configuration, and one for each skill. The first
 * command of a name wins, and aliases count as names: a skill cannot replace `/clear`.
 */
export class Commands {
  readonly #sources: readonly CommandSource[];

  constructor(...sources: readonly CommandSource[]) {
    this.#sources = sources;
  }

  /** Returns the commands of the folder `cwd`. Default: those of the workspace. */
  async list(cwd?: string): Promise<readonly Command[]> {
    const found: Command[] = [];
    const taken = new Set<string>();
    for (const source of this.#sources) {
      const commands = (await source(cwd)).filter(({ name }) => !taken.has(name.toLowerCase()));
      for (const command of commands) {
        const name = command.name.toLowerCase();
        if (taken.has(name)) continue;
        taken.add(name);
        found.push(command);
      }
      // Adds aliases after names: an alias never hides a command of its own source.
      for (const alias of commands.flatMap(({ aliases = [] }) => aliases)) taken.add(alias);
    }
    return found;
  }

  /**
   * Returns a command by name or alias, with or without the slash. Throws ServiceError `unknown_command`, which
   * suggests a similar name.
   */
  async resolve(name: string, cwd?: string): Promise<Command> {
    const wanted = name.replace(/^\//, "").toLowerCase();
    const all = await this.list(cwd);
    const found =
      all.find((command) => command.name.toLowerCase() === wanted) ??
      all.find((command) => command.aliases?.includes(wanted) === true);
    if (found) return found;
    const names = all.flatMap((command) => [command.name, ...(command.aliases ?? [])]);
    const near = nearest(wanted, names);
    const hint = near === undefined ? "" : ` Did you mean /${near}?`;
    const shownName = shorten(wanted, MAX_SHOWN_NAME);
    throw new ServiceError(
      "unknown_command",
      `No command is named /${shownName}.${hint} /help lists the commands.`,
      { param: "command" },
    );
  }

  /**
   * Runs `/name arguments`. Throws ServiceError `command_usage` for text that is not a command, and what the command
   * throws.
   */
  async dispatch(text: string, call: Omit<CommandCall, "args">): Promise<Directive> {
    const parsed = parseCommand(text);
    if (!parsed) {
      throw new ServiceError("command_usage", "A command is a slash and a name, such as /help.", {
        param: "command",
      });
    }
    if (parsed.args.length > MAX_ARGUMENT_CHARACTERS) {
      throw new ServiceError(
        "command_usage",
        `The arguments of a command are limited to ${MAX_ARGUMENT_CHARACTERS} characters.`,
      );
    }
    const command = await this.resolve(parsed.name, call.cwd);
    return command.run({ ...call, args: parsed.args });
  }
}

/** Returns the command's session. Throws ServiceError `command_usage` without one. */
export function sessionOf(call: CommandCall, command: string): string {
  if (call.sessionId !== undefined) return call.sessionId;
  throw new ServiceError("command_usage", `/${command} needs a session. Open one first.`);
}

/** Returns ServiceError `command_usage`, which shows the syntax of a command. */
export function usage(command: Pick<Command, "name" | "hint">): ServiceError {
  return new ServiceError("command_usage", `Usage: /${command.name} ${command.hint ?? ""}`.trim());
}

export const shown = (output: string): Directive => ({ type: "exec", output });

/** Throws ServiceError `command_not_started`. Only the start of a shell can fail; everything later is output. */
export function notStarted(cause: unknown): never {
  throw new ServiceError(
    "command_not_started",
    "The command could not be started. Check that the folder of the session, or the workspace, still exists.",
    { cause },
  );
}
