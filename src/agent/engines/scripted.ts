/**
 * The engine that runs a turn on its model, the test of a model, and engines whose model is a script: the built-in demo
 * model, and those of tests.
 */
import type { Log } from "../../base/observe.ts";
import { createId, headOf, shorten } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type {
  AssistantPart,
  Engine,
  EngineTurn,
  Message,
  OutputFormat,
  StopReason,
  ToolMessage,
  ToolSpec,
  TurnEnd,
  TurnPorts,
} from "../engine.ts";
import { DEMO_MODEL, type ModelCatalog, type ModelRef } from "../model.ts";
import { type Usage, zeroUsage } from "../usage/usage.ts";
import type { ProviderConfig } from "./providers.ts";
import { runTurn, type Step, type StepContext, type TurnModel } from "./turn.ts";

/**
 * Creates the engine that runs each turn on its model's engine: the scripted engine for the demo model, the model
 * engine for all others. The model engine is loaded with the first turn that needs it.
 */
export function createEngine(options: {
  readonly providers: readonly ProviderConfig[];
  readonly checkInput: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxAnswerBytes?: number;
  /** Knows why the demo model must not answer, such as a model server that is only slow. */
  readonly models?: Pick<ModelCatalog, "whyNone">;
}): Engine {
  const script: Script = (state) => {
    const message = options.models?.whyNone?.();
    return message === undefined ? demoScript(state) : { error: { code: "provider_error", message } };
  };
  const demo = createScriptedEngine(script, options);
  let model: Promise<Engine> | undefined;
  const load = () =>
    (model ??= import("./model-engine.ts").then((module) => module.createModelEngine(options)));
  return {
    name: "agent",
    runTurn: async (turn) =>
      (turn.model.provider === DEMO_MODEL.provider ? demo : await load()).runTurn(turn),
  };
}

/** The result of a test of a model. */
export interface Trial {
  readonly end: TurnEnd;
  readonly calledTool: boolean;
  readonly durationMs: number;
  /** Undefined: the model sent nothing. */
  readonly firstTokenMs: number | undefined;
}

interface TrialOptions {
  /** False: the model gets no tool. Default true. */
  readonly withTool?: boolean;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly admit?: TurnPorts["admit"];
  readonly price?: TurnPorts["price"];
}

const MAX_TRIAL_STEPS = 2;

/** Models that cannot use tools are refused by their providers as soon as a call has one. */
const TRIAL_TOOL: ToolSpec = {
  name: "greeting",
  description: "Returns the greeting of the day.",
  parameters: { type: "object", properties: {}, additionalProperties: false },
};

/** Asks a model to call one tool and to answer with one sentence. Reports failures of the provider in `end`. */
export async function tryModel(engine: Engine, model: ModelRef, options: TrialOptions): Promise<Trial> {
  const { withTool = true, timeoutMs, signal, admit, price } = options;
  const startedMs = performance.now();
  const late = AbortSignal.timeout(timeoutMs);
  let calledTool = false;
  let firstTokenMs: number | undefined;
  const end = await engine.runTurn({
    runId: "run_trial",
    model,
    instructions: withTool
      ? "Call the tool greeting once, then answer with one short sentence that contains its result."
      : "Answer with one short sentence.",
    messages: [{ role: "user", text: "Say hello." }],
    settings: { maxOutputTokens: 2_000 },
    tools: withTool ? [TRIAL_TOOL] : [],
    maxSteps: MAX_TRIAL_STEPS,
    signal: signal ? AbortSignal.any([late, signal]) : late,
    ports: {
      emit: () => void (firstTokenMs ??= performance.now() - startedMs),
      callTool: async () => {
        calledTool = true;
        return { status: "ok", text: "Hello from agentd." };
      },
      takeSteers: () => [],
      saveStep: () => {},
      ...(admit ? { admit } : {}),
      ...(price ? { price } : {}),
    },
  });
  return { end, calledTool, durationMs: performance.now() - startedMs, firstTokenMs };
}

/** Returns whether the model is not usable: it failed, or neither said nor called anything. */
export function hasFailed({ end, calledTool }: Pick<Trial, "end" | "calledTool">): boolean {
  const isEmpty = end.text.trim() === "" && !calledTool;
  return end.error !== undefined || end.stop === "aborted" || isEmpty;
}

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
  /** What the answer must be. Absent: any text. */
  readonly outputFormat?: OutputFormat | undefined;
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
      const error = context.refusal(this.#turn.model);
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
      usage: context.price(this.#turn.model, usageOf(plan, spoken.text, { calls: calls.length, context })),
      stop: plan.stop,
      isCut: spoken.cut,
      error: plan.error,
    };
  }

  async #speak(plan: ScriptStep): Promise<{ parts: AssistantPart[]; text: string; cut: boolean }> {
    const { ports, signal } = this.#turn;
    const parts: AssistantPart[] = [];
    if (plan.reasoning !== undefined) {
      const id = createId("msg");
      ports.emit({ type: "reasoning.delta", messageId: id, text: plan.reasoning });
      ports.emit({ type: "reasoning.end", text: plan.reasoning });
      parts.push({ type: "reasoning", text: plan.reasoning, id });
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
        const waiting = ports.drain?.();
        if (waiting) await waiting;
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
      outputFormat: this.#turn.outputFormat,
      signal: this.#turn.signal,
    };
  }
}

const NOTHING: Step = { parts: [], calls: [], text: "", usage: zeroUsage, isCut: true };

/** Four characters a token: deterministic, and accurate enough for a model without tokens. */
function usageOf(
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

const LABEL = "[demo model]";
const MAX_QUOTED_CHARACTERS = 500;
const MAX_RESULT_CHARACTERS = 4_000;
const CHUNK_CHARACTERS = 16;

/** The lines that the demo model understands. The first match whose tool exists is called. */
const TOOL_PATTERNS: readonly {
  readonly pattern: RegExp;
  readonly tool: string;
  readonly input: (match: RegExpMatchArray) => Readonly<Record<string, string>>;
}[] = [
  {
    pattern: /^\s*run:\s*(.+)$/im,
    tool: "terminal",
    input: ([, command = ""]) => ({ command: command.trim() }),
  },
  { pattern: /^\s*read:?\s+(\S+)\s*$/im, tool: "read_file", input: ([, path = ""]) => ({ path }) },
  {
    pattern: /^\s*write:?\s+(\S+?):\s*([\s\S]*)$/im,
    tool: "write_file",
    input: ([, path = "", content = ""]) => ({ path, content }),
  },
  {
    pattern: /^\s*search:?\s+(.+)$/im,
    tool: "search_files",
    input: ([, pattern = ""]) => ({ pattern: pattern.trim() }),
  },
  { pattern: /\blist (?:the |all |my )*files\b/i, tool: "terminal", input: () => ({ command: "ls -la" }) },
];

/**
 * The built-in demo model, without key or network. Every answer says what it is. It calls tools on explicit commands,
 * so that everything around a model can be tried and tested.
 */
export const demoScript: Script = (state) => {
  if (state.outputFormat) return { error: { code: "agent_incomplete", message: NO_JSON } };
  if (state.toolResults.length > 0) return say(report(state));
  for (const { pattern, tool, input } of TOOL_PATTERNS) {
    const match = state.user.match(pattern);
    if (match && state.tools.includes(tool)) {
      return { ...say(`${LABEL} Calling ${tool}.`), calls: [{ tool, input: input(match) }] };
    }
  }
  return say(introduction(state.user));
};

const NO_JSON =
  "The built-in demo model cannot answer in JSON. Configure a provider with `agentd setup`, or omit the response format.";

function say(text: string): ScriptStep {
  return { text, chunkSize: CHUNK_CHARACTERS };
}

function report({ toolResults }: ScriptState): string {
  const texts = toolResults.map(({ tool, status, text }) => {
    const cut = text.length > MAX_RESULT_CHARACTERS ? `${headOf(text, MAX_RESULT_CHARACTERS)}\n(cut)` : text;
    return `${tool} answered (${status}):\n${cut}`;
  });
  return `${LABEL} ${texts.join("\n\n")}`;
}

function introduction(user: string): string {
  const task = taskIn(user);
  const quoted = shorten(task, MAX_QUOTED_CHARACTERS);
  return [
    `${LABEL} No model is chosen, so the built-in demo model answers. You said: ${JSON.stringify(quoted)}.`,
    'It can call tools: try "run: echo hello", "write notes.txt: hi", "read notes.txt" or "search hi".',
    "For a real model run `agentd setup`, which finds keys and model servers, then restart agentd.",
  ].join("\n");
}

/**
 * Returns a scheduled job's prompt without its preamble: the delimiters explained there would take effect in an answer.
 */
function taskIn(user: string): string {
  return user.split(/^Your task:\n\n/m).at(-1) ?? user;
}
