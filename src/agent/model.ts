/** The models: their catalog, the built-in demo model, and the engine that runs a turn on its model. */
import {
  type OutputFormat,
  type ModelRef,
  formatModel,
  zeroUsage,
  type Engine,
  type EngineTurn,
  type StopReason,
  type TurnEnd,
  type Usage,
  type AssistantPart,
  type Message,
  type ToolMessage,
  type ToolSpec,
  type ListedProvider,
  DEMO_MODEL,
} from "./engine.ts";
import type { Clock } from "../base/time.ts";
import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/text.ts";
import { runTurn, type Step, type StepContext, type TurnModel } from "./engines/turn.ts";
import type { Log } from "../base/observe.ts";
import { headOf } from "../base/text.ts";
import type { ProviderConfig } from "./engines/providers.ts";

/** A provider as far as model names depend on it. */
export interface ModelProvider {
  readonly name: string;
  readonly type: string;
  /** Its known models; empty when unknown. */
  readonly models: readonly string[];
  /** Context of its models, if configured. */
  readonly contextTokens?: number;
  /** Whether it has a key; undefined when unknown. */
  readonly hasKey?: boolean;
  /** Runs on this machine, where it may answer one request at a time, and calls cost nothing. Default false. */
  readonly isLocal?: boolean;
  /** Absent: the provider's own address. */
  readonly baseUrl?: string;
  /** Configured prices; the first that matches a model counts. */
  readonly prices?: readonly ConfiguredPrice[];
}

/** Prices of models of a provider, in US dollars per million tokens. */
export interface ConfiguredPrice {
  /** Name of the model, where `*` stands for any text. */
  readonly match: string;
  readonly input: number;
  readonly output: number;
  /** Default: as other input. */
  readonly cache_read?: number;
  readonly cache_write?: number;
}

/** The available models, and the resolution of their names. */
export interface ModelCatalog {
  readonly default: ModelRef;
  readonly providers: readonly ModelProvider[];
  /** Resolves `model` or `provider:model`; undefined when no provider can have it. */
  resolve(name: string): ModelRef | undefined;
  /** Returns the context size of the model: configured, reported by its server, published, or the default. */
  contextTokensOf(ref: ModelRef): number;
  /**
   * Asks the server of the model for its context. Bounded in time; never rejects. Undefined when nothing is asked: the
   * context is configured, the server reports none, or it has answered.
   */
  refreshContext(ref: ModelRef, options?: RefreshOptions): Promise<void> | undefined;
  /** Returns why no model answers, although a server of one is there; undefined when the default model answers. */
  whyNone?(): string | undefined;
  /** Returns why nothing unattended may use the default model: a provider is configured, but no model is chosen. */
  whyUnchosen?(): string | undefined;
  /** Returns the providers in their order, each with its known models; the demo model needs no key. */
  list(): readonly ListedProvider[];
}

/** The contexts that model servers report. */
export interface ContextSource {
  /** Returns the last reported context; undefined when none is known. */
  known(ref: ModelRef): number | undefined;
  /** Undefined when there is nothing to wait for. */
  refresh(ref: ModelRef, options: RefreshOptions): Promise<void> | undefined;
}

export interface RefreshOptions {
  readonly signal?: AbortSignal;
  /** The next call uses the model: the server may load it to know its context. */
  readonly loads?: boolean;
}

/** Context of models without a known size. */
const DEFAULT_CONTEXT_TOKENS = 128_000;

/** The type of provider that makes models of these names. OpenAI's open models run only elsewhere. */
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude-/, "anthropic"],
  [/^(?:gpt-(?!oss)|chatgpt-|o\d)/, "openai"],
  [/^gemini-/, "google"],
];

/**
 * Creates a catalog that resolves names by the configured providers. A prefix counts only if it names a provider
 * (`qwen3:8b` is a model of Ollama, not a provider). A bare name goes to the provider that lists it. Else, if the name
 * shows its maker, it goes to the maker's provider or a router, and is unknown without either. Else it goes to the
 * default's provider, unless that lists its models.
 *
 * `defaultModel` that nothing resolves throws: the configuration names a provider that does not exist.
 */
export function createModelCatalog(from: {
  readonly providers: readonly ModelProvider[];
  readonly defaultModel?: string;
  /** Default 128,000. */
  readonly defaultContextTokens?: number;
  readonly contexts?: ContextSource;
}): ModelCatalog {
  const demo: ModelProvider = { name: DEMO_MODEL.provider, type: "demo", models: [DEMO_MODEL.id] };
  const providers = [...from.providers.filter((provider) => provider.name !== demo.name), demo];
  const first = firstModel(providers);
  const chosen = from.defaultModel === undefined ? first : find(from.defaultModel, providers, first);
  if (!chosen) {
    const names = providers.map((provider) => provider.name).join(", ");
    throw new RangeError(
      `model.default ${JSON.stringify(from.defaultModel)} belongs to no configured provider (${names})`,
    );
  }
  const { defaultContextTokens = DEFAULT_CONTEXT_TOKENS, contexts } = from;
  const configuredContext = (ref: ModelRef) =>
    providers.find(({ name }) => name === ref.provider)?.contextTokens;
  return {
    default: chosen,
    providers,
    resolve: (name) => find(name, providers, chosen),
    contextTokensOf: (ref) =>
      configuredContext(ref) ?? contexts?.known(ref) ?? publishedContext(ref.id) ?? defaultContextTokens,
    refreshContext: (ref, options = {}) =>
      configuredContext(ref) === undefined ? contexts?.refresh(ref, options) : undefined,
    list: () =>
      providers.map(({ name, type, models, hasKey }) => ({
        name,
        type,
        models: models.map((id) => formatModel({ provider: name, id })).filter((model) => NAME.test(model)),
        hasKey: hasKey ?? type === "demo",
        isDefault: name === chosen.provider,
      })),
  };
}

/**
 * Published context sizes of model families whose members agree; other names get the default. Only names
 * from the start count, with or without the maker: what a local server calls `my-gpt-4o` may be anything.
 */
const PUBLISHED_CONTEXTS: readonly (readonly [RegExp, number])[] = [
  [/^(?:openai\/)?gpt-4\.1(?:-|$)/, 1_047_576],
  [/^(?:openai\/)?gpt-4o(?:-|$)/, 128_000],
  [/^(?:openai\/)?gpt-4-turbo(?:-|$)/, 128_000],
  [/^(?:openai\/)?(?:o1|o3|o4-mini)(?:-20|$)/, 200_000],
  [/^(?:anthropic\/)?claude-(?:3|opus-4|sonnet-4|haiku-4)/, 200_000],
  [/^(?:google\/)?gemini-2\.(?:0|5)-(?:flash|pro)(?:-lite|-\d+)?$/, 1_048_576],
];

function publishedContext(id: string): number | undefined {
  return PUBLISHED_CONTEXTS.find(([pattern]) => pattern.test(id))?.[1];
}

/** Visible ASCII: names travel in headers. */
const NAME = /^[\x21-\x7e]{1,256}$/;

/** The first listed model that can be named; the demo model comes last. */
function firstModel(providers: readonly ModelProvider[]): ModelRef {
  const listed = providers.flatMap(({ name, models }) => models.map((id) => ({ provider: name, id })));
  return listed.find((ref) => NAME.test(formatModel(ref))) ?? DEMO_MODEL;
}

function find(name: string, providers: readonly ModelProvider[], fallback: ModelRef): ModelRef | undefined {
  if (!NAME.test(name)) return undefined;
  const [prefix = "", ...rest] = name.split(":");
  const provider = rest.length > 0 && providers.find((candidate) => candidate.name === prefix);
  const ref = provider ? explicit(provider, rest.join(":")) : bare(name, providers, fallback);
  // The stored form is read as a name again.
  return ref && NAME.test(formatModel(ref)) ? ref : undefined;
}

function explicit(provider: ModelProvider, id: string): ModelRef | undefined {
  if (id === "" || (provider.type === "demo" && !provider.models.includes(id))) return undefined;
  return { provider: provider.name, id: formatFor(provider, id) };
}

function bare(name: string, providers: readonly ModelProvider[], fallback: ModelRef): ModelRef | undefined {
  const listed = providers.find((provider) => provider.models.includes(name));
  if (listed) return { provider: listed.name, id: name };
  const router = providers.find((provider) => provider.type === "openrouter");
  const family = familyOf(name);
  if (family !== undefined) {
    const taker = providers.find((provider) => provider.type === family) ?? router;
    return taker && { provider: taker.name, id: formatFor(taker, name) };
  }
  const current = providers.find((provider) => provider.name === fallback.provider);
  const isOpen = current !== undefined && current.type !== "demo" && current.models.length === 0;
  return isOpen ? { provider: current.name, id: formatFor(current, name) } : undefined;
}

/** Routers name a model with its maker (`anthropic/claude-x`); the makers themselves do not. */
function formatFor(provider: ModelProvider, id: string): string {
  if (provider.models.includes(id)) return id;
  const family = familyOf(id);
  if (family === undefined) return id;
  const bareId = id.startsWith(`${family}/`) ? id.slice(family.length + 1) : id;
  if (provider.type === "openrouter") return `${family}/${bareId}`;
  return provider.type === family ? bareId : id;
}

/** Returns the maker that a model name shows, with or without the maker as its prefix. */
function familyOf(id: string): string | undefined {
  return FAMILIES.find(([pattern, maker]) =>
    pattern.test(id.startsWith(`${maker}/`) ? id.slice(maker.length + 1) : id),
  )?.[1];
}

/**
 * Parses `<model> [--provider <name>] [--global | --session | --tui-session]`, in any order. `name` is `model` or
 * `provider:model`; `isGlobal`: it is the default of all sessions. ServiceError `invalid_request`.
 */
export function parseModelChoice(text: string): { readonly name: string; readonly isGlobal: boolean } {
  const names: string[] = [];
  const flags = new Set<string>();
  let provider: string | undefined;
  const words = text.split(/\s+/).filter((word) => word !== "");
  for (let at = 0; at < words.length; at++) {
    const [word = "", value] = words[at]?.split(/=(.*)/s) ?? [];
    if (word === "--provider") provider = value ?? words[++at];
    else if (MODEL_FLAGS.has(word) && value === undefined) flags.add(word);
    else if (word.startsWith("--")) throw badChoice(`The option ${word} is unknown.`);
    else names.push(words[at] ?? "");
    if (word === "--provider" && (provider ?? "") === "") throw badChoice("--provider needs a name.");
  }
  const [name] = names;
  if (name === undefined || names.length > 1) throw badChoice("Name exactly one model.");
  const isQualified = provider === undefined || name.startsWith(`${provider}:`);
  return { name: isQualified ? name : `${provider}:${name}`, isGlobal: flags.has("--global") };
}

const MODEL_FLAGS: ReadonlySet<string> = new Set(["--global", "--session", "--tui-session"]);

function badChoice(what: string): ServiceError {
  const form = "<model> [--provider <name>] [--global|--session]";
  return new ServiceError("invalid_request", `${what} Write: ${form}.`, { param: "model" });
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
    (model ??= import("./engines/model-engine.ts").then((module) => module.createModelEngine(options)));
  return {
    name: "agent",
    runTurn: async (turn) =>
      (turn.model.provider === DEMO_MODEL.provider ? demo : await load()).runTurn(turn),
  };
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
  const quoted = task.length > MAX_QUOTED_CHARACTERS ? `${headOf(task, MAX_QUOTED_CHARACTERS)}...` : task;
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
