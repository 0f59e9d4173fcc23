import {
  addUsage,
  zeroUsage,
  type EngineTurn,
  type StopReason,
  type ToolCall,
  type TurnEnd,
  type Usage,
} from "../engine.ts";
import type { AssistantPart, Message, ToolMessage } from "../message.ts";
import { Conversation } from "./conversation.ts";

type TurnError = NonNullable<TurnEnd["error"]>;

/** One answer of a model. An error may follow a partial answer. */
export interface Step {
  readonly parts: readonly AssistantPart[];
  readonly calls: readonly ToolCall[];
  readonly text: string;
  readonly usage: Usage;
  /** Why the answer ended early; its calls are not made. */
  readonly stop?: "length" | "refusal" | undefined;
  /** True for an interrupted answer, whose calls do not run. */
  readonly isCut: boolean;
  readonly error?: TurnError | undefined;
}

export interface StepContext {
  /** 0 for the first model call of the turn. */
  readonly index: number;
  readonly conversation: Conversation;
  /** Answers of the tools in this turn. */
  readonly toolResults: readonly ToolMessage[];
  /** Compresses the context after the model refused it. Resolves to true when the call should be repeated. */
  shrink(): Promise<boolean>;
  /** Returns why no further call may be made. */
  refusal(): TurnError | undefined;
}

/** The source of a turn's answers. */
export interface TurnModel {
  step(context: StepContext): Promise<Step>;
  /** Whether the usage of a step measures the whole context. */
  readonly countsContext: boolean;
  /** Steps that an earlier attempt of the turn made, with their answers. */
  readonly resumed?: { readonly steps: number; readonly toolResults: readonly ToolMessage[] };
  /** Reports an unexpected error; without it the turn rejects. */
  readonly onBug?: (error: unknown) => TurnError;
}

/** Runs a turn: makes steps, runs their calls and saves them, until an answer makes no calls. */
export function runTurn(turn: EngineTurn, model: TurnModel): Promise<TurnEnd> {
  return new TurnLoop(turn, model).run();
}

class TurnLoop {
  readonly #turn: EngineTurn;
  readonly #model: TurnModel;
  readonly #conversation: Conversation;
  readonly #toolResults: ToolMessage[];
  #usage: Usage = zeroUsage;
  #text = "";

  constructor(turn: EngineTurn, model: TurnModel) {
    this.#turn = turn;
    this.#model = model;
    this.#conversation = new Conversation(turn);
    this.#toolResults = [...(model.resumed?.toolResults ?? [])];
  }

  async run(): Promise<TurnEnd> {
    try {
      return await this.#steps();
    } catch (error) {
      if (this.#turn.signal.aborted) return this.#end("aborted");
      if (!this.#model.onBug) throw error;
      return this.#end("error", this.#model.onBug(error));
    }
  }

  async #steps(): Promise<TurnEnd> {
    const { signal, maxSteps } = this.#turn;
    for (let index = this.#model.resumed?.steps ?? 0; index < maxSteps; index++) {
      if (signal.aborted) return this.#end("aborted");
      const refusal = await this.#prepare();
      if (refusal) return this.#end("error", refusal);
      const steered = this.#steer();
      const step = await this.#model.step(this.#contextOf(index, steered));
      const answers = await this.#answer(step);
      this.#keep([...steered, ...assistantMessage(step), ...answers], step.usage, steered.length);
      if (step.text !== "") this.#text = step.text;
      if (signal.aborted) return this.#end("aborted");
      if (step.error) return this.#end("error", step.error);
      const isLast = answers.length === 0 || index + 1 === maxSteps;
      if (step.stop === "length" && isLast) return this.#end("length");
      if (step.stop === "refusal") return this.#end("refusal");
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
    const refusal = this.#refusal();
    if (refusal || !this.#conversation.isNearLimit) return refusal;
    await this.#conversation.fit();
    return this.#refusal();
  }

  #refusal(): TurnError | undefined {
    const message = this.#turn.ports.admit?.();
    return message === undefined ? undefined : { code: "budget_exceeded", message };
  }

  #contextOf(index: number, steered: readonly Message[]): StepContext {
    return {
      index,
      conversation: this.#conversation,
      toolResults: this.#toolResults,
      refusal: () => this.#refusal(),
      shrink: () =>
        this.#conversation.shrink(steered).catch((error: unknown) => {
          if (this.#turn.signal.aborted) return false;
          throw error;
        }),
    };
  }

  #steer(): readonly Message[] {
    const messages: Message[] = this.#turn.ports.takeSteers().map((text) => ({ role: "user", text }));
    this.#conversation.add(messages);
    return messages;
  }

  async #answer({ calls, stop, isCut }: Step): Promise<readonly ToolMessage[]> {
    const { ports, signal } = this.#turn;
    const invalid = stop && UNMADE[stop];
    const answers = await Promise.all(
      calls.map(async (call): Promise<ToolMessage> => {
        const checked = invalid === undefined ? call : { ...call, invalid };
        const answer = isCut || signal.aborted ? INTERRUPTED : await ports.callTool(checked);
        return { role: "tool", callId: call.callId, tool: call.tool, ...answer };
      }),
    );
    this.#toolResults.push(...answers);
    return answers;
  }

  /** Saves a step. Its first `saved` messages are already in the conversation. */
  #keep(messages: readonly Message[], usage: Usage, saved: number): void {
    this.#usage = addUsage(this.#usage, usage);
    const added = messages.slice(saved);
    this.#conversation.add(added.filter(({ role }) => role === "assistant"));
    if (this.#model.countsContext) this.#conversation.count(usage.inputTokens + usage.outputTokens);
    this.#conversation.add(added.filter(({ role }) => role !== "assistant"));
    if (messages.length > 0) this.#turn.ports.saveStep({ messages, usage });
  }

  #end(stop: StopReason, error?: TurnError): TurnEnd {
    return { stop, text: this.#text, usage: this.#usage, ...(error ? { error } : {}) };
  }
}

const INTERRUPTED = {
  status: "aborted",
  code: "cancelled",
  text: "The turn was interrupted before the call began.",
} as const;

/** Why the calls of an answer that ended early are not made. */
const UNMADE: Readonly<Record<NonNullable<Step["stop"]>, string>> = {
  length:
    "This call was not made: the answer was cut by the output limit, so its arguments may be incomplete. " +
    "Make the call again, with less text before it or in smaller parts.",
  refusal: "This call was not made: a content filter of the provider ended the answer.",
};

function assistantMessage({ parts, isCut }: Step): readonly Message[] {
  return parts.length === 0 ? [] : [{ role: "assistant", parts, ...(isCut ? { interrupted: true } : {}) }];
}
