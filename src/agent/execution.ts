import type { Tx } from "../store/store.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import {
  addUsage,
  zeroUsage,
  type EngineEvent,
  type EngineTurn,
  type TurnEnd,
  type Usage,
} from "./engine.ts";
import { runEvent } from "./event.ts";
import { loadHistory } from "./history.ts";
import type { Message } from "./message.ts";
import { outcomeOf, type Outcome } from "./outcome.ts";
import type { AgentParts } from "./parts.ts";
import { Recorder } from "./recorder.ts";
import { moveRun, toRunUsage, type RunInput } from "./run.ts";
import { completeOnce } from "./completion.ts";
import { RunStop } from "./stop.ts";
import { callTool } from "./tool-call.ts";
import type { ToolCallScope } from "./tool-scope.ts";
import { ToolError, type Completion, type Tool } from "./tool.ts";

export interface ExecutionOptions {
  readonly parts: AgentParts;
  readonly run: RunRow;
  readonly session: SessionRow;
  readonly input: RunInput;
  /** True when the run's prompt is all there is: the transcript need not be read. */
  readonly fresh: boolean;
}

/** One run at work: hands the engine its turn, records what it does, and can be steered and stopped meanwhile. */
export class Execution {
  readonly runId: string;
  readonly sessionId: string;
  /** Effective `provider:model`. */
  readonly model: string;
  readonly #options: ExecutionOptions;
  readonly #input: RunInput;
  readonly #recorder: Recorder;
  readonly #abort = new AbortController();
  #steers: string[] = [];
  #usage: Usage = zeroUsage;
  /** Of model calls beside the turn. */
  #aside: Usage = zeroUsage;
  #over = false;

  constructor(options: ExecutionOptions) {
    const { parts, run } = options;
    this.#options = options;
    this.#input = options.input;
    this.runId = run.id;
    this.sessionId = run.session_id;
    this.model = run.model;
    this.#recorder = new Recorder({
      store: parts.store,
      clock: parts.clock,
      sessionId: run.session_id,
      runId: run.id,
      onFailure: (cause) =>
        this.#abort.abort(new RunStop("failure", "The run could not be recorded.", { cause })),
    });
  }

  /**
   * Runs the turn to its end, which is one transaction: `end` closes the run in it, false when somebody else has, and
   * `next` does what follows.
   */
  async run<T>(close: {
    readonly end: (tx: Tx, outcome: Outcome) => Promise<boolean>;
    readonly next: (tx: Tx) => Promise<T>;
  }): Promise<T | undefined> {
    const end = await this.#turn();
    this.#over = true;
    const stop = this.#abort.signal.reason instanceof RunStop ? this.#abort.signal.reason : undefined;
    const whole = { ...end, usage: addUsage(end.usage, this.#aside) };
    const outcome = outcomeOf(this.runId, whole, { stop, pendingSteer: this.#steers });
    return this.#recorder.finish(outcome.event, (tx) => close.end(tx, outcome), close.next);
  }

  /** Adds text to the turn at its next step. False when the turn is over: it was not taken. */
  steer(text: string): boolean {
    if (this.#over || this.#abort.signal.aborted) return false;
    this.#steers.push(text);
    return true;
  }

  /** Asks the turn to stop; the run ends when the engine really has. */
  async stop(stop: RunStop): Promise<void> {
    if (this.#over || this.#abort.signal.aborted) return;
    this.#abort.abort(stop);
    if (stop.kind !== "cancelled") return;
    const { store } = this.#options.parts;
    await store.write(async (tx) => {
      const set = { stop_requested: 1 };
      const moved =
        (await moveRun(tx, this.runId, { from: "running", to: "stopping" }, set)) ||
        (await moveRun(tx, this.runId, { from: "waiting_for_approval", to: "stopping" }, set));
      if (!moved) return;
      const event = runEvent(this.runId, "run.stopping", { reason: stop.message });
      await store.journal.append(tx, this.sessionId, [event]);
    });
  }

  async #turn(): Promise<TurnEnd> {
    const { engine, clock, log, settings } = this.#options.parts;
    const seconds = settings.runTimeoutMs / 1000;
    const expire = () =>
      this.#abort.abort(new RunStop("timeout", `The run took longer than ${seconds} seconds.`));
    const cancelTimer = seconds > 0 ? clock.after(settings.runTimeoutMs, expire) : undefined;
    try {
      return await engine.runTurn(await this.#engineTurn());
    } catch (error) {
      // An engine must not reject; when one does it is a bug, and the run must end all the same.
      log.error("the engine failed unexpectedly", { run: this.runId, engine: engine.name, error });
      const message = "The agent failed inside the server; its log has the details.";
      return { stop: "error", text: "", usage: this.#usage, error: { code: "internal_error", message } };
    } finally {
      cancelTimer?.();
    }
  }

  async #engineTurn(): Promise<EngineTurn> {
    const { parts, run, session, fresh } = this.#options;
    const { settings, store } = parts;
    const messages = fresh ? this.#input.prompt : await loadHistory(store, this.sessionId);
    const tools = this.#tools();
    const cwd = session.cwd ?? settings.workspace;
    const [provider = "", ...id] = run.model.split(":");
    return {
      runId: this.runId,
      model: { provider, id: id.join(":") },
      instructions: instructionsFor({
        configured: settings.instructions,
        asked: this.#input.instructions,
        cwd,
      }),
      messages,
      tools,
      settings: this.#input.settings,
      maxSteps: settings.maxSteps,
      signal: this.#abort.signal,
      ports: {
        emit: (event) => this.#emit(event),
        callTool: this.#toolCaller(tools, cwd),
        takeSteers: () => this.#takeSteers(),
        saveStep: (step) => this.#saveStep(step.messages, step.usage),
      },
    };
  }

  #tools(): readonly Tool[] {
    const { toolsets } = this.#input;
    const { tools } = this.#options.parts;
    return toolsets === undefined ? tools : tools.filter((tool) => toolsets.includes(tool.toolset));
  }

  #toolCaller(tools: readonly Tool[], cwd: string): EngineTurn["ports"]["callTool"] {
    const { parts, run } = this.#options;
    const { settings, asks, clock, log, checkInput } = parts;
    const scope: ToolCallScope = {
      runId: this.runId,
      sessionId: this.sessionId,
      model: this.model,
      subject: { sessionId: this.sessionId, runId: this.runId, owner: run.owner },
      tools: new Map(tools.map((tool) => [tool.name, tool])),
      cwd,
      policy: {
        mode: settings.policyMode,
        workspace: cwd,
        home: settings.userHome,
        agentHome: settings.agentHome,
      },
      answerable: this.#input.answerable,
      timeouts: settings.questionTimeouts,
      onTimeout: settings.onApprovalTimeout,
      grants: parts.grants,
      variables: parts.variables.of(this.sessionId),
      complete: (prompt) => this.#complete(prompt),
      asks,
      clock,
      log,
      checkInput,
      signal: this.#abort.signal,
      record: (event) => this.#recorder.event(event),
      stopRun: (reason) => this.#abort.abort(new RunStop("cancelled", reason)),
    };
    return (call) => callTool(call, scope);
  }

  /** A model call beside the turn, without tools. */
  async #complete(prompt: Completion): Promise<string> {
    const { parts } = this.#options;
    const ref = parts.models.resolve(prompt.model ?? this.model);
    if (!ref) throw new ToolError(`There is no model ${JSON.stringify(prompt.model)}.`);
    const { instructions, messages } = prompt;
    const request = { runId: this.runId, model: ref, instructions, messages, signal: this.#abort.signal };
    const { text, usage, error } = await completeOnce(parts.engine, request);
    this.#aside = addUsage(this.#aside, usage);
    if (error) throw new ToolError(error.message);
    return text;
  }

  #emit(event: EngineEvent): void {
    const record = this.#recorder;
    switch (event.type) {
      case "message.start":
        return record.event(runEvent(this.runId, "message.started", { message_id: event.messageId }));
      case "message.delta":
        return record.event(
          runEvent(this.runId, "message.delta", { message_id: event.messageId, delta: event.text }),
        );
      case "message.end":
        return record.event(
          runEvent(this.runId, "message.completed", { message_id: event.messageId, text: event.text }),
        );
      case "reasoning.delta":
        return record.event(runEvent(this.runId, "reasoning.delta", { delta: event.text }));
      case "reasoning.end":
        return record.event(runEvent(this.runId, "reasoning.completed", { text: event.text }));
      case "notice":
        return record.event(runEvent(this.runId, "run.notice", { message: event.text }));
    }
  }

  #takeSteers(): readonly string[] {
    const taken = this.#steers;
    this.#steers = [];
    for (const text of taken) this.#recorder.event(runEvent(this.runId, "run.steered", { text }));
    return taken;
  }

  #saveStep(messages: readonly Message[], usage: Usage): void {
    this.#usage = addUsage(this.#usage, usage);
    this.#recorder.messages(messages);
    // The final event carries the usage of a turn of one step; only longer turns report on the way.
    if (messages.some((message) => message.role === "tool")) {
      this.#recorder.event(runEvent(this.runId, "usage.updated", { usage: toRunUsage(this.#usage) }));
    }
  }
}

function instructionsFor(from: { configured: string; asked: string | undefined; cwd: string }): string {
  const place = `Your tools work in ${from.cwd}.`;
  return [from.configured, place, from.asked]
    .filter((text) => text !== undefined && text !== "")
    .join("\n\n");
}
