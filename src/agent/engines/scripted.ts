import type { Clock } from "../../base/clock.ts";
import { createId } from "../../base/ids.ts";
import {
  addUsage,
  zeroUsage,
  type Engine,
  type EngineTurn,
  type StopReason,
  type ToolAnswer,
  type TurnEnd,
  type Usage,
} from "../engine.ts";
import type { AssistantPart, Message, ToolMessage } from "../message.ts";
import { Conversation, unmadeText } from "./conversation.ts";

/** Input of a script for the next step of a turn. */
export interface ScriptState {
  /** Text of the newest user message. */
  readonly user: string;
  /** The answers of this turn's tools so far. */
  readonly toolResults: readonly ToolMessage[];
  /** 0 for the first model call of the turn. */
  readonly step: number;
  readonly messages: readonly Message[];
  readonly tools: readonly string[];
  readonly instructions: string;
  readonly model: string;
  readonly signal: AbortSignal;
}

/** One step: what the model says and calls. Every field is optional; an empty step ends the turn. */
export interface ScriptStep {
  readonly reasoning?: string;
  /** The whole text, or its deltas; an async source lets a test pause the stream at any point. */
  readonly text?: string | readonly string[] | AsyncIterable<string>;
  /** Characters per delta of a whole text. Default: one delta. */
  readonly chunkSize?: number;
  /** Wait before each delta. */
  readonly delayMs?: number;
  readonly calls?: readonly { readonly tool: string; readonly input: unknown; readonly invalid?: string }[];
  readonly stop?: Extract<StopReason, "length" | "refusal">;
  /** With code `context_too_long` and no output, the conversation is compressed and the script is called again. */
  readonly error?: NonNullable<TurnEnd["error"]>;
}

export type Script = (state: ScriptState) => ScriptStep | Promise<ScriptStep>;

/**
 * An engine whose model is a function. It follows the whole contract of the port without network or cost, for the demo
 * model, tests and benchmarks. An error of the script is a bug and is rethrown.
 */
export function createScriptedEngine(script: Script, options: { readonly clock: Clock }): Engine {
  return {
    name: "scripted",
    runTurn: (turn) => new ScriptedTurn(turn, script, options.clock).run(),
  };
}

class ScriptedTurn {
  readonly #turn: EngineTurn;
  readonly #script: Script;
  readonly #clock: Clock;
  readonly #conversation: Conversation;
  readonly #toolResults: ToolMessage[] = [];
  #firstStep = 0;
  #usage: Usage = zeroUsage;
  #text = "";

  constructor(turn: EngineTurn, script: Script, clock: Clock) {
    this.#turn = turn;
    this.#script = script;
    this.#clock = clock;
    this.#conversation = new Conversation(turn);
    // A resumed turn counts the steps since its prompt.
    const prompt = turn.messages.findLastIndex(({ role }) => role === "user");
    for (const message of turn.messages.slice(prompt + 1)) {
      if (message.role === "assistant") this.#firstStep += 1;
      if (message.role === "tool") this.#toolResults.push(message);
    }
  }

  async run(): Promise<TurnEnd> {
    for (let step = this.#firstStep; step < this.#turn.maxSteps; step++) {
      const end = await this.#step(step);
      if (end) return end;
    }
    return this.#end("max_steps");
  }

  /** Makes one model call and runs its tools; returns undefined when the turn continues. */
  async #step(step: number): Promise<TurnEnd | undefined> {
    const { ports, signal } = this.#turn;
    if (signal.aborted) return this.#end("aborted");
    const unfit = await this.#prepare();
    if (unfit) return unfit;
    const steered: Message[] = ports.takeSteers().map((text) => ({ role: "user", text }));
    this.#conversation.add(steered);
    const { plan, end } = await this.#plan(step, steered);
    if (end) return end;
    const spoken = await this.#speak(plan);
    const unmade = unmadeText(plan.stop);
    const calls = (spoken.cut ? [] : (plan.calls ?? [])).map((call) => {
      return { ...call, callId: createId("call"), ...(unmade === undefined ? {} : { invalid: unmade }) };
    });
    const parts: AssistantPart[] = [
      ...spoken.parts,
      ...calls.map(({ callId, tool, input }) => ({ type: "tool_call" as const, callId, tool, input })),
    ];
    const answers = await Promise.all(calls.map((call) => this.#answer(call)));
    const isEmpty = parts.length === 0;
    const assistant: Message = { role: "assistant", parts, ...(spoken.cut ? { interrupted: true } : {}) };
    const messages = [...steered, ...(isEmpty ? [] : [assistant]), ...answers];
    const usage = this.#cost(plan, spoken.text, calls.length);
    this.#toolResults.push(...answers);
    if (spoken.text !== "") this.#text = spoken.text;
    if (spoken.cut || signal.aborted) return this.#save(messages, usage, "aborted");
    if (plan.error) return this.#fail(messages, plan.error, usage);
    const goesOn = plan.stop === "length" && calls.length > 0 && step + 1 < this.#turn.maxSteps;
    if (plan.stop && !goesOn) return this.#save(messages, usage, plan.stop);
    this.#keep(messages, usage, steered.length);
    if (answers.some(({ status }) => status === "pending")) return this.#end("tool_calls");
    return calls.length > 0 ? undefined : this.#settle();
  }

  /** Returns the end of a turn that may not continue; compresses a full conversation. */
  async #prepare(): Promise<TurnEnd | undefined> {
    const refused = this.#refused([]);
    if (refused || !this.#conversation.isNearLimit) return refused;
    try {
      await this.#conversation.fit();
    } catch (error) {
      if (this.#turn.signal.aborted) return this.#end("aborted");
      throw error;
    }
    return this.#refused([]);
  }

  /** Returns the script's step; calls the script again after a compression that it asked for. */
  async #plan(step: number, steered: readonly Message[]): Promise<{ plan: ScriptStep; end?: TurnEnd }> {
    const plan = await this.#script(this.#state(step));
    const isSilent = plan.text === undefined && plan.reasoning === undefined && plan.calls === undefined;
    if (plan.error?.code !== "context_too_long" || !isSilent) return { plan };
    try {
      if (!(await this.#conversation.shrink(steered))) return { plan };
    } catch (error) {
      if (this.#turn.signal.aborted) return { plan, end: this.#save(steered, zeroUsage, "aborted") };
      throw error;
    }
    const end = this.#refused(steered);
    return end ? { plan, end } : { plan: await this.#script(this.#state(step)) };
  }

  /** Returns the end of a turn that may not call its model. `steered` is not saved yet. */
  #refused(steered: readonly Message[]): TurnEnd | undefined {
    const message = this.#turn.ports.admit?.();
    return message === undefined ? undefined : this.#fail(steered, { code: "budget_exceeded", message });
  }

  /** Ends the turn, unless new steering text arrived. */
  #settle(): TurnEnd | undefined {
    const late = this.#turn.ports.takeSteers();
    if (late.length === 0) return this.#end("end");
    const messages: Message[] = late.map((text) => ({ role: "user", text }));
    this.#keep(messages, zeroUsage, 0);
    return undefined;
  }

  async #speak(plan: ScriptStep): Promise<{ parts: AssistantPart[]; text: string; cut: boolean }> {
    const { ports, signal } = this.#turn;
    const parts: AssistantPart[] = [];
    if (plan.reasoning !== undefined) {
      ports.emit({ type: "reasoning.delta", text: plan.reasoning });
      ports.emit({ type: "reasoning.end", text: plan.reasoning });
      parts.push({ type: "reasoning", text: plan.reasoning });
    }
    if (plan.text === undefined || plan.text === "") return { parts, text: "", cut: signal.aborted };
    const messageId = createId("msg");
    let text = "";
    ports.emit({ type: "message.start", messageId });
    try {
      for await (const delta of deltas(plan)) {
        if (plan.delayMs) await this.#clock.sleep(plan.delayMs, { signal });
        if (signal.aborted) break;
        text += delta;
        ports.emit({ type: "message.delta", messageId, text: delta });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    ports.emit({ type: "message.end", messageId, text });
    if (text !== "") parts.push({ type: "text", text, id: messageId });
    return { parts, text, cut: signal.aborted };
  }

  async #answer(call: {
    callId: string;
    tool: string;
    input: unknown;
    invalid?: string;
  }): Promise<ToolMessage> {
    const answer: ToolAnswer = this.#turn.signal.aborted
      ? { status: "aborted", code: "cancelled", text: "The run was stopped before the call began." }
      : await this.#turn.ports.callTool(call);
    return { role: "tool", callId: call.callId, tool: call.tool, ...answer };
  }

  #state(step: number): ScriptState {
    const last = this.#conversation.messages.findLast((message) => message.role === "user");
    return {
      user: last?.role === "user" ? last.text : "",
      toolResults: this.#toolResults,
      step,
      messages: this.#conversation.messages,
      tools: this.#turn.tools.map((tool) => tool.name),
      instructions: this.#turn.instructions,
      model: this.#turn.model.id,
      signal: this.#turn.signal,
    };
  }

  /** Four characters a token: deterministic, and accurate enough for a model without tokens. */
  #cost(plan: ScriptStep, text: string, calls: number): Usage {
    const last = this.#conversation.messages.at(-1);
    const inputCharacters = last && last.role !== "assistant" ? last.text.length : 0;
    return {
      ...zeroUsage,
      inputTokens: Math.ceil(inputCharacters / 4),
      outputTokens: Math.ceil(text.length / 4),
      reasoningTokens: Math.ceil((plan.reasoning?.length ?? 0) / 4),
      modelCalls: 1,
      toolCalls: calls,
    };
  }

  /** Adds and saves messages; the first `saved` are already in the conversation. */
  #keep(messages: readonly Message[], usage: Usage, saved: number): void {
    this.#usage = addUsage(this.#usage, usage);
    this.#conversation.add(messages.slice(saved));
    if (messages.length > 0) this.#turn.ports.saveStep({ messages, usage });
  }

  #save(messages: readonly Message[], usage: Usage, stop: StopReason): TurnEnd {
    this.#keep(messages, usage, messages.length);
    return this.#end(stop);
  }

  #fail(messages: readonly Message[], error: NonNullable<TurnEnd["error"]>, usage = zeroUsage): TurnEnd {
    return { ...this.#save(messages, usage, "error"), error };
  }

  #end(stop: StopReason): TurnEnd {
    return { stop, text: this.#text, usage: this.#usage };
  }
}

async function* deltas({ text = "", chunkSize }: ScriptStep): AsyncGenerator<string> {
  if (typeof text !== "string") return yield* text;
  const size = chunkSize ?? text.length;
  for (let start = 0; start < text.length; start += size) yield text.slice(start, start + size);
}
