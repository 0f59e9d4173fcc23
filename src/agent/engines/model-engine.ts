import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import {
  addUsage,
  zeroUsage,
  type Engine,
  type EngineTurn,
  type ModelRef,
  type StopReason,
  type ToolSpec,
  type TurnEnd,
  type TurnPorts,
  type Usage,
} from "../engine.ts";
import type { AssistantMessage, Message, ToolMessage } from "../message.ts";
import { formatModel } from "../model.ts";
import { Conversation, unmadeText } from "./conversation.ts";
import { loadSdk, ModelCaller } from "./model-call.ts";
import { type AnsweringModel, FallbackChain, type ProviderConfig } from "./providers.ts";
import {
  internalError,
  isContextTooLong,
  isOutage,
  PortError,
  toTurnError,
  type TurnError,
} from "./provider-error.ts";
import type { StepResult } from "./step.ts";

export interface ModelEngineOptions {
  readonly providers: readonly ProviderConfig[];
  readonly checkInput?: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** limits.max_answer_bytes. */
  readonly maxAnswerBytes?: number;
}

/**
 * The engine for real models: our own turn loop over the model SDK's single call. The SDK converts prompts, parses
 * arguments and connects providers; the turn, and how it is steered, stopped and saved, is ours.
 */
export function createModelEngine(options: ModelEngineOptions): Engine {
  return { name: "model", runTurn: (turn) => new ModelTurn(turn, options).run() };
}

/** The result of a step's call. A stopped call has no `error`. */
interface StepEnd {
  readonly result: StepResult;
  readonly isCut: boolean;
  readonly error?: TurnError;
}

class ModelTurn {
  readonly #turn: EngineTurn;
  readonly #options: ModelEngineOptions;
  readonly #conversation: Conversation;
  readonly #chain: FallbackChain;
  #usage: Usage = zeroUsage;
  #text = "";

  constructor(turn: EngineTurn, options: ModelEngineOptions) {
    this.#turn = turn;
    this.#options = options;
    this.#conversation = new Conversation(turn);
    this.#chain = new FallbackChain(turn, options.providers);
  }

  async run(): Promise<TurnEnd> {
    const { model: ref, signal, runId } = this.#turn;
    const provider = this.#options.providers.find(({ name }) => name === ref.provider);
    if (!provider) {
      const message = `No provider is named ${JSON.stringify(ref.provider)}. Add it to model.providers.`;
      return this.#end("error", { code: "model_not_found", message });
    }
    try {
      const caller = new ModelCaller(await loadSdk(), this.#turn, this.#options);
      const first = await this.#chain.next();
      return first ? await this.#steps(caller, first) : this.#end("error", internalError);
    } catch (error) {
      if (signal.aborted) return this.#end("aborted");
      // Provider failures are handled where they occur; this is a failing port or a bug.
      this.#options.log.error("a turn failed inside the server", { run: runId, error });
      return this.#end("error", internalError);
    }
  }

  async #steps(caller: ModelCaller, first: AnsweringModel): Promise<TurnEnd> {
    let answering = first;
    const switchTo = (next: AnsweringModel) => void (answering = next);
    for (let step = 0; step < this.#turn.maxSteps; step++) {
      const refusal = await this.#prepare();
      if (refusal) return this.#end("error", refusal);
      const steered = this.#steer();
      const { result, isCut, error } = await this.#step(caller, { answering, steered, takeOver: switchTo });
      const answers = await this.#answer(result, isCut);
      this.#keep([...steered, ...assistantMessage(result, isCut), ...answers], result.usage, steered.length);
      if (result.text !== "") this.#text = result.text;
      if (this.#turn.signal.aborted) return this.#end("aborted");
      if (error) return this.#end("error", error);
      const isLast = answers.length === 0 || step + 1 === this.#turn.maxSteps;
      if (result.finish === "length" && isLast) return this.#end("length");
      if (result.finish === "content-filter") return this.#end("refusal");
      if (answers.some(({ status }) => status === "pending")) return this.#end("tool_calls");
      if (answers.length > 0) continue;
      const late = this.#steer();
      if (late.length === 0) return this.#end("end");
      this.#keep(late, zeroUsage, late.length);
    }
    return this.#end("max_steps");
  }

  /**
   * Returns why the next call must not be made, and compresses a full conversation. Compression costs tokens, so the
   * budget is checked before and after it.
   */
  async #prepare(): Promise<TurnError | undefined> {
    const refusal = refusalOf(this.#turn.ports);
    if (refusal || !this.#conversation.isNearLimit) return refusal;
    await this.#conversation.fit();
    return refusalOf(this.#turn.ports);
  }

  /** Makes one answer with the first model that responds. An error may follow a partial answer. */
  async #step(
    caller: ModelCaller,
    from: {
      readonly answering: AnsweringModel;
      readonly steered: readonly Message[];
      readonly takeOver: (next: AnsweringModel) => void;
    },
  ): Promise<StepEnd> {
    let { answering } = from;
    let outage: TurnError | undefined;
    for (;;) {
      const { result, hasEmitted, error } = await caller.call(answering, this.#conversation.messages);
      if (error === undefined) return { result, isCut: false };
      if (this.#turn.signal.aborted) return { result, isCut: true };
      const turnError = this.#translate(error, answering.provider);
      if (hasEmitted) return { result, isCut: true, error: turnError };
      if (isContextTooLong(error)) {
        if (!(await this.#shrink(from.steered))) return { result, isCut: true, error: turnError };
      } else {
        outage ??= turnError;
        const next = isOutage(error) ? await this.#chain.next() : undefined;
        if (!next) return { result, isCut: true, error: outage };
        this.#turn.ports.emit({ type: "notice", text: switchText(answering.ref, next.ref) });
        answering = next;
        from.takeOver(next);
      }
      const refusal = refusalOf(this.#turn.ports);
      if (refusal) return { result, isCut: true, error: refusal };
    }
  }

  async #shrink(steered: readonly Message[]): Promise<boolean> {
    try {
      return await this.#conversation.shrink(steered);
    } catch (error) {
      if (this.#turn.signal.aborted) return false;
      throw error;
    }
  }

  #steer(): readonly Message[] {
    const messages: Message[] = this.#turn.ports.takeSteers().map((text) => ({ role: "user", text }));
    this.#conversation.add(messages);
    return messages;
  }

  async #answer({ calls, finish }: StepResult, isCut: boolean): Promise<readonly ToolMessage[]> {
    const { ports, signal } = this.#turn;
    const invalid = unmadeText(finish === "content-filter" ? "refusal" : finish);
    return Promise.all(
      calls.map(async (call) => {
        const isOver = isCut || signal.aborted;
        const text = "The turn was interrupted before the call began.";
        const checked = invalid === undefined ? call : { ...call, invalid };
        const cut = { status: "aborted", code: "cancelled", text } as const;
        const answer = isOver ? cut : await ports.callTool(checked);
        return { role: "tool" as const, callId: call.callId, tool: call.tool, ...answer };
      }),
    );
  }

  /** Saves a step. Its first `saved` messages are already in the conversation. */
  #keep(messages: readonly Message[], usage: Usage, saved: number): void {
    this.#usage = addUsage(this.#usage, usage);
    const added = messages.slice(saved);
    this.#conversation.add(added.filter(({ role }) => role === "assistant"));
    this.#conversation.count(usage.inputTokens + usage.outputTokens);
    this.#conversation.add(added.filter(({ role }) => role !== "assistant"));
    if (messages.length > 0) this.#turn.ports.saveStep({ messages, usage });
  }

  #translate(error: unknown, provider: ProviderConfig): TurnError {
    const { log, clock } = this.#options;
    const turnError = toTurnError(error, provider, clock.now());
    log.warn("a model call failed", {
      run: this.#turn.runId,
      provider: provider.name,
      reason: turnError.message,
      error: error instanceof PortError ? error : withoutBody(error),
    });
    return turnError;
  }

  #end(stop: StopReason, error?: TurnError): TurnEnd {
    return { stop, text: this.#text, usage: this.#usage, ...(error ? { error } : {}) };
  }
}

function refusalOf({ admit }: TurnPorts): TurnError | undefined {
  const message = admit?.();
  return message === undefined ? undefined : { code: "budget_exceeded", message };
}

function assistantMessage({ parts }: StepResult, interrupted: boolean): readonly AssistantMessage[] {
  return parts.length === 0 ? [] : [{ role: "assistant", parts, ...(interrupted ? { interrupted } : {}) }];
}

function switchText(from: ModelRef, to: ModelRef): string {
  return `${formatModel(from)} does not respond; switching to ${formatModel(to)}.`;
}

/** The SDK's errors and messages repeat the prompt and the response body, which must not reach the log. */
function withoutBody(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error;
  const { statusCode } = error as { statusCode?: number };
  return { name: error.name, ...(statusCode === undefined ? {} : { statusCode }) };
}
