import { addUsage, zeroUsage, type Usage } from "../usage/usage.ts";
import type {
  EngineTurn,
  StopReason,
  ToolAnswer,
  ToolCall,
  TurnEnd,
  AssistantPart,
  Message,
  ToolMessage,
} from "../engine.ts";
import type { ModelRef } from "../model.ts";

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
  /** Returns why no further call of the model may be made. */
  refusal(model: ModelRef): TurnError | undefined;
  /** Returns the usage of a call with its cost. */
  price(model: ModelRef, usage: Usage): Usage;
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
  /** True once an answer of this turn ends it. */
  #endsTurn = false;

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
      if (this.#endsTurn) return this.#end("end");
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

  #refusal(model: ModelRef = this.#turn.model): TurnError | undefined {
    const refusal = this.#turn.ports.admit?.(model);
    return refusal && { code: "budget_exceeded", ...refusal };
  }

  #contextOf(index: number, steered: readonly Message[]): StepContext {
    return {
      index,
      conversation: this.#conversation,
      toolResults: this.#toolResults,
      refusal: (model) => this.#refusal(model),
      price: (model, usage) => this.#turn.ports.price?.(model, usage) ?? usage,
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
        const called: ToolAnswer = isCut || signal.aborted ? INTERRUPTED : await ports.callTool(checked);
        const { endsTurn = false, ...answer } = called;
        this.#endsTurn ||= endsTurn;
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

/** The messages of a running turn, and when they need compression. Both engines use it. */
class Conversation {
  readonly #turn: EngineTurn;
  #messages: readonly Message[];
  #counted: TokenCount | undefined;
  /** Number of messages after the last compression: without new ones another is useless. */
  #compactedAt: number | undefined;
  #hasOverflowed = false;

  constructor(turn: EngineTurn) {
    this.#turn = turn;
    this.#messages = turn.messages;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  add(messages: readonly Message[]): void {
    if (messages.length > 0) this.#messages = [...this.#messages, ...messages];
  }

  /** Records the provider's count of all messages so far. Ignores zero: some servers do not count. */
  count(tokens: number): void {
    if (tokens > 0) this.#counted = { tokens, messages: this.#messages.length };
  }

  get isNearLimit(): boolean {
    const { compactAtTokens, ports } = this.#turn;
    if (compactAtTokens === undefined || !ports.compact) return false;
    if (this.#compactedAt === this.#messages.length) return false;
    return contextTokens(this.#turn, this.#messages, this.#counted) > compactAtTokens;
  }

  /** Compresses before a call, with all messages saved. Rejects when the turn was stopped. */
  async fit(): Promise<void> {
    if (this.isNearLimit) await this.#compact("near_limit", []);
  }

  /**
   * Compresses after a refused call, once per turn. `unsaved` are the last messages, which only this conversation has.
   * Resolves to true when the call should be repeated. Rejects when the turn was stopped.
   */
  async shrink(unsaved: readonly Message[]): Promise<boolean> {
    if (this.#hasOverflowed) return false;
    this.#hasOverflowed = true;
    return this.#compact("overflow", unsaved);
  }

  async #compact(reason: "near_limit" | "overflow", unsaved: readonly Message[]): Promise<boolean> {
    const saved = unsaved.length > 0 ? this.#messages.slice(0, -unsaved.length) : this.#messages;
    const messages = await this.#turn.ports.compact?.(reason, saved);
    if (messages) {
      this.#messages = [...messages, ...unsaved];
      this.#counted = undefined;
    }
    this.#compactedAt = this.#messages.length;
    return messages !== undefined;
  }
}

const CHARACTERS_A_TOKEN = 4;

/** Typical count for an image of ordinary size. */
const IMAGE_TOKENS = 1_500;

/** Role and delimiters of a message. */
const MESSAGE_TOKENS = 4;

/** Estimates the tokens of messages at four characters each: accurate enough to decide whether they fit. */
export function estimateTokens(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + MESSAGE_TOKENS + tokensOf(message), 0);
}

/** A provider's token count and the number of messages it covers. */
interface TokenCount {
  readonly tokens: number;
  readonly messages: number;
}

/** Returns the size of the next call's context: the provider's count where known, plus an estimate for the rest. */
export function contextTokens(
  { instructions }: Pick<EngineTurn, "instructions">,
  messages: readonly Message[],
  counted?: TokenCount,
): number {
  if (counted) return counted.tokens + estimateTokens(messages.slice(counted.messages));
  return Math.ceil(instructions.length / CHARACTERS_A_TOKEN) + estimateTokens(messages);
}

function tokensOf(message: Message): number {
  if (message.role === "assistant") {
    const characters = message.parts.reduce(
      (sum, part) =>
        sum + (part.type === "tool_call" ? (JSON.stringify(part.input)?.length ?? 0) : part.text.length),
      0,
    );
    return Math.ceil(characters / CHARACTERS_A_TOKEN);
  }
  const files = message.role === "user" ? (message.attachments ?? []) : [];
  const attached = files.reduce(
    (sum, { type, data }) =>
      sum + (type === "image" ? IMAGE_TOKENS : (data.length * 3) / 4 / CHARACTERS_A_TOKEN),
    0,
  );
  return Math.ceil(message.text.length / CHARACTERS_A_TOKEN + attached);
}
