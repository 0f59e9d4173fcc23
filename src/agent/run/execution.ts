import { abortable } from "../../base/time.ts";
import { createId } from "../../base/text.ts";
import { offTracer, type Span } from "../../base/observe.ts";
import type { RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import type { Budget } from "../usage/budgets.ts";
import { toRunUsage, addUsage, zeroUsage, type Usage } from "../usage/usage.ts";
import { describeRunEnd, startRunSpan } from "../usage/spans.ts";
import { CallOrder, type ToolCallScope } from "../tool/scope.ts";
import { Delegation, type Spawner } from "../subagent/delegation.ts";
import { fromEngine, runEvent, EventWriter } from "./event.ts";
import type { EngineTurn, TurnEnd, TurnPorts, Message } from "../engine.ts";
import { formatModel, type ModelRef } from "../model.ts";
import { removeTurn, Sessions } from "../session/sessions.ts";
import { loadContext, contextStart } from "../session/transcript.ts";
import {
  IdleTimeout,
  ControlRequests,
  requestStop,
  unheardSteers,
  type Steer,
  outcomeOf,
  type RunClose,
} from "./control.ts";
import { type Outcome, type RunFamily, type RunInput, type RunKind, isParked, RunStop } from "./run.ts";
import type { AgentDeps } from "../deps.ts";
import { type SessionResources, todoListOf } from "../session/session.ts";
import { AuxiliaryCalls } from "../context/auxiliary-calls.ts";
import { settleStep, type Suspended, keepOnDisk } from "../recovery/resume.ts";
import { callTool } from "../tool/call.ts";
import { policyNow, type TurnSetup, setUpTurn } from "./prompt.ts";

/** Whether the end of a run changes nothing but its own session. */
const isPlain = ({ kind, webhook, reply_to: replyTo }: RunRow): boolean =>
  webhook === null && replyTo === null && kind !== "subagent" && kind !== "background";

export interface ExecutionOptions {
  readonly deps: AgentDeps;
  readonly run: RunRow;
  readonly session: SessionRow;
  readonly input: RunInput;
  readonly budget: Budget;
  readonly spawner: Spawner;
  /** True: the prompt is the whole transcript, which need not be read. */
  readonly fresh: boolean;
  /** Set for a run that another process left waiting. */
  readonly suspended?: Suspended | undefined;
}

/** One running run: gives the engine its turn, records the events, and can be steered and stopped. */
export class Execution {
  readonly runId: string;
  readonly sessionId: string;
  /** Effective `provider:model`. */
  readonly model: string;
  readonly #options: ExecutionOptions;
  readonly #recorder: EventWriter;
  /** Set once the turn needs them: most turns make none. */
  #auxiliary: AuxiliaryCalls | undefined;
  /** Set once the turn calls a tool, the only source of questions. */
  #scope: ToolCallScope | undefined;
  readonly #span: Span;
  readonly #abort = new AbortController();
  readonly #inactivity: IdleTimeout;
  #steers: Steer[] = [];
  /** Ids of all steering that was ever in `#steers`. */
  readonly #seen: Set<string>;
  /** Calls that the client is to make. */
  readonly #requested: RunToolCall[] = [];
  #control: ControlRequests | undefined;
  #usage: Usage = zeroUsage;
  #over = false;
  #acts: "no" | "soon" | "yes" = "no";

  constructor(options: ExecutionOptions) {
    const { deps, run, session } = options;
    const { owner, key, kind, session_id } = run;
    this.#options = options;
    this.runId = run.id;
    this.sessionId = run.session_id;
    this.model = run.model;
    this.#seen = new Set(options.suspended?.steered);
    for (const steer of options.suspended?.steers ?? []) this.#addSteer(steer);
    this.#recorder = new EventWriter({
      store: deps.store,
      clock: deps.clock,
      sessionId: run.session_id,
      runId: run.id,
      run: { owner, key, kind, session_id, source: session.source },
      endsApart: isPlain(run),
      onFailure: (cause) =>
        this.#abort.abort(new RunStop("failure", "The run could not be recorded.", { cause })),
    });
    const parent = options.input.traceparent;
    this.#span = deps.tracing ? startRunSpan(deps.tracing, run, parent) : offTracer.start("", { parent });
    this.#inactivity = this.#watch();
  }

  /** Whether the run is a turn of the agent, which can be steered. */
  get isTurn(): boolean {
    return this.#options.run.kind !== "compression";
  }

  /** Whether another process can resume the run while it waits for approval. */
  get isDetached(): boolean {
    return this.#options.input.isDetached === true;
  }

  /** Whether the next process restarts the run if this one parks it now. */
  get canStartAgain(): boolean {
    return this.#options.input.startsAgain === true && this.#acts === "no" && !this.#abort.signal.aborted;
  }

  get isParked(): boolean {
    return isParked(this.#abort.signal);
  }

  /** Runs the turn to its end, which is one transaction. Undefined when the run was parked: it has not ended. */
  async run<T>(close: RunClose<T>): Promise<T | undefined> {
    const end = await this.#work();
    this.#over = true;
    if (this.isParked) {
      this.#span.end();
      return undefined;
    }
    const before = this.#options.suspended?.usage ?? zeroUsage;
    const whole = {
      ...end,
      usage: addUsage(before, addUsage(end.usage, this.#auxiliary?.usage ?? zeroUsage)),
    };
    const isUndone = this.#isUndone(whole);
    const conclude = async (tx: Tx): Promise<Outcome> => {
      const outcome = await this.#outcome(tx, whole, isUndone);
      if (this.#span.isRecording) describeRunEnd(this.#span, whole, outcome);
      if (this.#scope) await this.#options.deps.questions.closeUncertain(tx, this.runId);
      return outcome;
    };
    const next = async (tx: Tx, outcome: Outcome, isReleased: boolean): Promise<T | undefined> => {
      await close.follow(tx, outcome);
      if (isUndone) await removeTurn(tx, this.#options.deps.store, this.#options.run);
      return isReleased ? undefined : close.next(tx);
    };
    try {
      return await close.attempts(() => this.#recorder.finish(conclude, next, close.ended));
    } finally {
      this.#span.end();
      if (this.#scope) this.#options.deps.questions.forget(this.runId);
    }
  }

  /** A turn whose tools have acted stays: the conversation must say what they did. */
  #isUndone({ stop, usage }: TurnEnd): boolean {
    return this.#options.input.undoesRefusal === true && stop === "refusal" && usage.toolCalls === 0;
  }

  async #outcome(tx: Tx, end: TurnEnd, isUndone: boolean): Promise<Outcome> {
    const { started_at: startedAt, created_at: createdAt } = this.#options.run;
    const run = { id: this.runId, startedAtMs: startedAt ?? createdAt };
    const heard = { seen: this.#seen, heardUpTo: this.#control?.heardUpTo ?? 0 };
    const unheard = await unheardSteers(tx, run, heard);
    const { reason } = this.#abort.signal;
    return outcomeOf({ id: this.runId, model: this.model }, end, {
      stop: reason instanceof RunStop ? reason : undefined,
      pendingSteer: [...this.#steers.map(({ text }) => text), ...unheard],
      requested: this.#requested,
      isUndone,
    });
  }

  /**
   * Adds text to the turn at its next step; text that comes too late is returned in the final event. False when the turn
   * is over: the text was not accepted. Once this resolves the text survives a crash.
   */
  async steer(text: string): Promise<boolean> {
    if (this.#over || this.#abort.signal.aborted || !this.isTurn) return false;
    const steer = { id: createId("str"), text };
    this.#addSteer(steer);
    this.#record(runEvent(this.runId, "run.steer_accepted", { steer_id: steer.id, text }));
    await this.#recorder.flush();
    return true;
  }

  /** Requests that the turn stops; the run ends when the engine has stopped. */
  async stop(stop: RunStop): Promise<void> {
    if (this.#over || this.#abort.signal.aborted) return;
    this.#abort.abort(stop);
    if (stop.kind !== "cancelled") return;
    const { store } = this.#options.deps;
    const run = { id: this.runId, sessionId: this.sessionId };
    await store.write((tx) => requestStop(tx, store, run, { reason: stop.message, by: stop.by }));
  }

  /** Leaves the run as it is stored, for the next process: this process writes no more of it. */
  park(): void {
    if (this.#over || this.#abort.signal.aborted) return;
    this.#recorder.abandon();
    this.#abort.abort(new RunStop("parked", "The server shut down while the run waited for approval."));
  }

  #addSteer(steer: Steer): void {
    if (this.#seen.has(steer.id)) return;
    this.#seen.add(steer.id);
    this.#steers.push(steer);
  }

  /** Listens for stop and steer requests of other processes. */
  #listen(): ControlRequests {
    const { log } = this.#options.deps;
    return new ControlRequests(this.#options.deps, this.runId, {
      onStop: (reason) => {
        if (!this.#abort.signal.aborted) this.#abort.abort(new RunStop("cancelled", reason));
      },
      onSteer: (steer) => this.#addSteer(steer),
      onFailure: (error) =>
        log.warn("a run cannot be controlled by other processes", { run: this.runId, error }),
    });
  }

  async #work(): Promise<TurnEnd> {
    const { engine, clock, log, settings, models } = this.#options.deps;
    // In a chat people see that the demo model answers; targets of a webhook would take its answer for a real one.
    const unchosen = this.#options.session.source === "webhook" ? models.whyUnchosen?.() : undefined;
    if (unchosen !== undefined) {
      const error = { code: "provider_error", message: unchosen } as const;
      return { stop: "error", text: "", usage: this.#usage, error };
    }
    const timeoutMs = this.#options.input.timeoutMs ?? settings.runTimeoutMs;
    const seconds = timeoutMs / 1000;
    const expire = () =>
      this.#abort.abort(new RunStop("timeout", `The run took longer than ${seconds} seconds.`));
    const cancelTimer = seconds > 0 ? clock.after(timeoutMs, expire) : undefined;
    this.#control = this.#listen();
    try {
      return this.isTurn ? await engine.runTurn(await this.#engineTurn()) : await this.#compression();
    } catch (error) {
      if (this.#abort.signal.aborted) return { stop: "aborted", text: "", usage: this.#usage };
      // An engine must not reject. If one does it is a bug, and the run must still end.
      log.error("the engine failed unexpectedly", { run: this.runId, engine: engine.name, error });
      const message = "The agent failed inside the server; its log has the details.";
      return { stop: "error", text: "", usage: this.#usage, error: { code: "internal_error", message } };
    } finally {
      cancelTimer?.();
      this.#inactivity.stop();
      this.#control.stop();
    }
  }

  /** Stops the run when nothing happens in it for its inactivity limit. */
  #watch(): IdleTimeout {
    const { inactivityMs: limitMs = 0 } = this.#options.input;
    const message = `Nothing happened in the run for ${limitMs / 1000} seconds: no text, and no output of a tool.`;
    const onInactive = () => this.#abort.abort(new RunStop("timeout", message));
    return new IdleTimeout({ clock: this.#options.deps.clock, limitMs, onInactive });
  }

  #record(event: NewEvent): void {
    this.#inactivity.keepAlive();
    this.#recorder.event(event);
  }

  async #engineTurn(): Promise<EngineTurn> {
    const { deps, run, session, input, fresh, budget } = this.#options;
    const kind = run.kind as RunKind;
    const resources = deps.clients.of(this.#root.sessionId);
    await abortable(resources.settled(), this.#abort.signal);
    const { signal } = this.#abort;
    const setup = await setUpTurn(deps, { kind, model: run.model, session, input, resources, signal });
    const { notice: ofModel } = setup;
    const atFirst = [...deps.notices(), ...(ofModel === undefined ? [] : [ofModel])];
    for (const notice of [...(fresh ? atFirst : []), ...resources.notices()]) {
      this.#record(runEvent(this.runId, "run.notice", { message: notice }));
    }
    const scope = () => (this.#scope ??= this.#toolScope(setup, resources));
    const ports: TurnPorts = {
      emit: (event) => this.#record(fromEngine(this.runId, event)),
      callTool: (call) => callTool(call, scope()),
      takeSteers: () => this.#takeSteers(),
      saveStep: (step) => this.#saveStep(step.messages, step.usage),
      drain: () => this.#drain(),
      admit: (model) => budget.admit(model),
      price: (model, usage) => this.#priced(model, usage),
      compact: (reason, saved) => this.#auxiliaryCalls().compact(reason, saved),
    };
    await this.#settle(scope);
    const { compactAtTokens, model, fallbacks, instructions, settings, maxSteps } = setup;
    await deps.prices.prepare([model, ...(fallbacks ?? [])]);
    return {
      runId: this.runId,
      model,
      fallbacks,
      instructions,
      messages: fresh ? input.prompt : await this.#context(),
      tools: [...setup.tools, ...setup.clientTools],
      ...(input.toolChoice === undefined ? {} : { toolChoice: input.toolChoice }),
      clientTools: setup.clientTools.map(({ name }) => name),
      ...(input.outputFormat === undefined ? {} : { outputFormat: input.outputFormat }),
      settings,
      maxSteps,
      ...(compactAtTokens === undefined ? {} : { compactAtTokens }),
      signal: this.#abort.signal,
      span: this.#span,
      ports,
    };
  }

  #drain(): Promise<void> | undefined {
    const waiting = this.#recorder.drain();
    // A run that is being stopped does not wait for the store.
    return waiting && abortable(waiting, this.#abort.signal).catch(() => {});
  }

  #auxiliaryCalls(): AuxiliaryCalls {
    const { deps, run, input, budget } = this.#options;
    return (this.#auxiliary ??= new AuxiliaryCalls({
      deps,
      run,
      span: this.#span,
      input,
      budget,
      recorder: this.#recorder,
      signal: this.#abort.signal,
      keepAlive: () => this.#inactivity.keepAlive(),
      price: (model, usage) => this.#priced(model, usage),
    }));
  }

  /** Attributes the usage of a call to its model. The price is the one at the time of the call. */
  #priced(ref: ModelRef, usage: Usage): Usage {
    const priced = this.#options.deps.prices.priced(ref, usage);
    const model = formatModel(ref);
    return model === this.model ? priced : { ...priced, others: { [model]: priced } };
  }

  /** Completes the step that the previous process left unfinished. */
  async #settle(scope: () => ToolCallScope): Promise<void> {
    const { suspended } = this.#options;
    if (!suspended) return;
    this.#saveStep(await settleStep(suspended, scope()), zeroUsage);
    await this.#recorder.flush();
  }

  async #context(): Promise<readonly Message[]> {
    const { store } = this.#options.deps;
    const start = await contextStart(store, this.sessionId);
    return (await loadContext(store, start)).map(({ message }) => message);
  }

  /** The run at the top of the family, which asks the questions and has the client's resources. */
  get #root(): RunFamily["root"] {
    return this.#options.input.family?.root ?? { runId: this.runId, sessionId: this.sessionId };
  }

  #toolScope({ tools, clientTools, cwd, policy }: TurnSetup, { files }: SessionResources): ToolCallScope {
    const { deps, run, session, input, spawner } = this.#options;
    const { settings, questions, grants, clock, log, checkInput } = deps;
    const { signal } = this.#abort;
    const record = (event: NewEvent) => this.#record(event);
    const delegation = new Delegation(deps, spawner, { run, session, input, signal, record });
    const root = this.#root;
    return {
      runId: this.runId,
      sessionId: this.sessionId,
      model: this.model,
      subject: { ...root, owner: run.owner },
      tools: new Map(tools.map((tool) => [tool.name, tool])),
      cwd,
      policy: () => policyNow(deps, policy, root.sessionId),
      answerable: input.answerable,
      onlyApprovals: input.onlyApprovals === true,
      clientTools: new Set(clientTools.map(({ name }) => name)),
      request: (call) => this.#request(call),
      timeouts: settings.questionTimeouts,
      onTimeout: settings.onApprovalTimeout,
      grants,
      variables: deps.variables.of(root.sessionId),
      complete: (prompt) => this.#auxiliaryCalls().complete(prompt),
      delegate: (callId, tasks, traceparent) =>
        this.#inactivity.during(() => delegation.run(callId, tasks, traceparent)),
      todos: todoListOf(deps.store, this.sessionId),
      chooseMode: (mode) => new Sessions(deps.store).choose(root.sessionId, run.owner, { mode }),
      files,
      order: new CallOrder(),
      questions,
      clock,
      log,
      checkInput,
      signal,
      record,
      keepAlive: () => this.#inactivity.keepAlive(),
      recorded: () => this.#recorder.flush(),
      beforeRun: () => this.#begins(),
      span: this.#span,
      stopRun: (reason) => this.#abort.abort(new RunStop("cancelled", reason)),
    };
  }

  /** Rules out a restart: once this resolves the first call is on disk, before the tool begins. */
  async #begins(): Promise<void> {
    if (this.#acts === "yes" || this.#options.input.startsAgain !== true) return;
    this.#acts = "soon";
    await this.#recorder.flush();
    await keepOnDisk(this.#options.deps.store, this.runId);
    this.#acts = "yes";
  }

  /** Runs a compression without a turn. */
  async #compression(): Promise<TurnEnd> {
    const auxiliary = this.#auxiliaryCalls();
    const refusal = await auxiliary.refusal(auxiliary.summaryModel);
    const error = refusal && { code: "budget_exceeded" as const, ...refusal };
    if (error) return { stop: "error", text: "", usage: zeroUsage, error };
    await auxiliary.compact("requested");
    return { stop: "end", text: "", usage: zeroUsage };
  }

  #request(call: RunToolCall): void {
    this.#requested.push(call);
    const { id, name, arguments: json } = call;
    const data = { tool_call_id: id, tool: name, arguments: json };
    this.#record(runEvent(this.runId, "tool.requested", data));
  }

  #takeSteers(): readonly string[] {
    const taken = this.#steers;
    this.#steers = [];
    for (const { id, text } of taken) {
      this.#record(runEvent(this.runId, "run.steered", { steer_id: id, text }));
    }
    return taken.map(({ text }) => text);
  }

  #saveStep(messages: readonly Message[], spent: Usage): void {
    this.#inactivity.keepAlive();
    this.#usage = addUsage(this.#usage, spent);
    this.#options.budget.spend(spent);
    this.#recorder.messages(messages.map(asSteer));
    // The final event carries the usage of a turn of one step; only longer turns report it in between. Events after this
    // one belong to no saved step: recovery rebuilds the unsaved step from them.
    if (messages.some((message) => message.role !== "assistant")) {
      const usage = addUsage(this.#options.suspended?.usage ?? zeroUsage, this.#usage);
      this.#record(runEvent(this.runId, "usage.updated", { usage: toRunUsage(usage, this.model) }));
    }
  }
}

/** Marks a user message in the middle of a turn as steering: the prompt was written before the turn began. */
function asSteer(message: Message): Message {
  return message.role === "user" && message.origin === undefined ? { ...message, origin: "steer" } : message;
}
