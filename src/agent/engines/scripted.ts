import type { Clock } from "../../base/clock.ts";
import { createId } from "../../base/ids.ts";
import {
  zeroUsage,
  type Engine,
  type EngineTurn,
  type StopReason,
  type TurnEnd,
  type Usage,
} from "../engine.ts";
import type { AssistantPart, Message, ToolMessage } from "../message.ts";
import { runTurn, type Step, type StepContext, type TurnModel } from "./turn.ts";

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
export function createScriptedEngine(script: Script, { clock }: { readonly clock: Clock }): Engine {
  return { name: "scripted", runTurn: (turn) => runTurn(turn, new ScriptedModel(turn, script, clock)) };
}

class ScriptedModel implements TurnModel {
  readonly countsContext = false;
  readonly resumed: NonNullable<TurnModel["resumed"]>;
  readonly #turn: EngineTurn;
  readonly #script: Script;
  readonly #clock: Clock;

  constructor(turn: EngineTurn, script: Script, clock: Clock) {
    this.#turn = turn;
    this.#script = script;
    this.#clock = clock;
    // A resumed turn counts the steps since its prompt.
    const prompt = turn.messages.findLastIndex(({ role }) => role === "user");
    const since = turn.messages.slice(prompt + 1);
    this.resumed = {
      steps: since.filter(({ role }) => role === "assistant").length,
      toolResults: since.filter((message) => message.role === "tool"),
    };
  }

  async step(context: StepContext): Promise<Step> {
    const plan = await this.#script(this.#state(context));
    const isSilent = plan.text === undefined && plan.reasoning === undefined && plan.calls === undefined;
    if (plan.error?.code !== "context_too_long" || !isSilent) return this.#perform(plan, context);
    if (await context.shrink()) {
      const error = context.refusal();
      if (error) return { ...NOTHING, error };
      return this.#perform(await this.#script(this.#state(context)), context);
    }
    return this.#turn.signal.aborted ? NOTHING : this.#perform(plan, context);
  }

  async #perform(plan: ScriptStep, context: StepContext): Promise<Step> {
    const spoken = await this.#speak(plan);
    const planned = spoken.cut ? [] : (plan.calls ?? []);
    const calls = planned.map((call) => ({ ...call, callId: createId("call") }));
    return {
      parts: [
        ...spoken.parts,
        ...calls.map(({ callId, tool, input }) => ({ type: "tool_call" as const, callId, tool, input })),
      ],
      calls,
      text: spoken.text,
      usage: costOf(plan, spoken.text, { calls: calls.length, context }),
      stop: plan.stop,
      isCut: spoken.cut,
      error: plan.error,
    };
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

  #state({ index, conversation, toolResults }: StepContext): ScriptState {
    const last = conversation.messages.findLast((message) => message.role === "user");
    return {
      user: last?.role === "user" ? last.text : "",
      toolResults,
      step: index,
      messages: conversation.messages,
      tools: this.#turn.tools.map((tool) => tool.name),
      instructions: this.#turn.instructions,
      model: this.#turn.model.id,
      signal: this.#turn.signal,
    };
  }
}

const NOTHING: Step = { parts: [], calls: [], text: "", usage: zeroUsage, isCut: true };

/** Four characters a token: deterministic, and accurate enough for a model without tokens. */
function costOf(
  plan: ScriptStep,
  text: string,
  { calls, context }: { readonly calls: number; readonly context: StepContext },
): Usage {
  const last = context.conversation.messages.at(-1);
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

async function* deltas({ text = "", chunkSize }: ScriptStep): AsyncGenerator<string> {
  if (typeof text !== "string") return yield* text;
  const size = chunkSize ?? text.length;
  for (let start = 0; start < text.length; start += size) yield text.slice(start, start + size);
}
