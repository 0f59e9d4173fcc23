import type * as Sdk from "ai";
import type { ModelMessage, ToolSet } from "ai";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import {
  addUsage,
  zeroUsage,
  type Engine,
  type EngineTurn,
  type StopReason,
  type ToolCall,
  type ToolSpec,
  type TurnEnd,
  type Usage,
} from "../engine.ts";
import type { AssistantMessage, Message, ToolMessage } from "../message.ts";
import { toModelMessages, toPrompt } from "./prompt.ts";
import { CutError, toTurnError, type TurnError } from "./provider-error.ts";
import { loadModel, type ProviderConfig } from "./providers.ts";
import { withRetries } from "./retry.ts";
import { StallGuard } from "./stall.ts";
import { StepReader, type StepResult } from "./step.ts";

const DEFAULT_TIMEOUT_MS = 120_000;

export interface ModelEngineOptions {
  readonly providers: readonly ProviderConfig[];
  readonly checkInput?: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The engine for real models: our own turn loop over the model SDK's single call. The SDK brings prompt conversion,
 * argument parsing and the providers; what a turn is, and how it is steered, stopped and saved, is ours.
 */
export function createModelEngine(options: ModelEngineOptions): Engine {
  return { name: "model", runTurn: (turn) => new ModelTurn(turn, options).run() };
}

type ModelSdk = typeof Sdk;
type LoadedModel = Awaited<ReturnType<typeof loadModel>>;

class ModelTurn {
  readonly #turn: EngineTurn;
  readonly #options: ModelEngineOptions;
  readonly #instructions: string;
  readonly #messages: ModelMessage[];
  #usage: Usage = zeroUsage;
  #text = "";

  constructor(turn: EngineTurn, options: ModelEngineOptions) {
    this.#turn = turn;
    this.#options = options;
    const prompt = toPrompt(turn.messages);
    this.#messages = prompt.messages;
    this.#instructions = [turn.instructions, ...prompt.instructions]
      .filter((text) => text !== "")
      .join("\n\n");
  }

  async run(): Promise<TurnEnd> {
    const { model: ref, signal } = this.#turn;
    const provider = this.#options.providers.find(({ name }) => name === ref.provider);
    if (!provider) {
      const message = `No provider is named ${JSON.stringify(ref.provider)}. Add it to model.providers.`;
      return this.#end("error", { code: "model_not_found", message });
    }
    try {
      const sdk = await loadSdk();
      const model = await loadModel(provider, ref.id);
      return await this.#steps(sdk, model, provider);
    } catch (error) {
      if (signal.aborted) return this.#end("aborted");
      return this.#end("error", this.#translate(error, provider));
    }
  }

  async #steps(sdk: ModelSdk, model: LoadedModel, provider: ProviderConfig): Promise<TurnEnd> {
    for (let step = 0; step < this.#turn.maxSteps; step++) {
      const steered = this.#steer();
      const { result, error } = await this.#step(sdk, model, provider);
      const isCut = error !== undefined;
      const answers = await this.#answer(result.calls, isCut);
      this.#keep([...steered, ...assistantMessage(result, isCut), ...answers], result.usage, steered.length);
      if (result.text !== "") this.#text = result.text;
      if (this.#turn.signal.aborted) return this.#end("aborted");
      if (isCut) return this.#end("error", this.#translate(error, provider));
      if (result.finish === "length") return this.#end("length");
      if (result.finish === "content-filter") return this.#end("refusal");
      if (answers.length > 0) continue;
      const late = this.#steer();
      if (late.length === 0) return this.#end("end");
      this.#keep(late, zeroUsage, late.length);
    }
    return this.#end("max_steps");
  }

  /** One model call. Its error stands beside what it said before. */
  async #step(
    sdk: ModelSdk,
    model: LoadedModel,
    provider: ProviderConfig,
  ): Promise<{ result: StepResult; error?: unknown }> {
    const { signal, ports } = this.#turn;
    const { clock } = this.#options;
    let reader = new StepReader((event) => ports.emit(event));
    try {
      await withRetries(
        async () => {
          reader = new StepReader((event) => ports.emit(event));
          await this.#call({ sdk, model, provider, reader });
        },
        {
          clock,
          signal,
          mayRetry: () => !reader.emitted,
          onRetry: (waitMs) => ports.emit({ type: "notice", text: retryText(provider, waitMs) }),
        },
      );
    } catch (error) {
      return { result: reader.result(), error };
    }
    const result = reader.result();
    return result.finish === undefined
      ? { result, error: new CutError("ended its answer in the middle.") }
      : { result };
  }

  async #call(from: {
    readonly sdk: ModelSdk;
    readonly model: LoadedModel;
    readonly provider: ProviderConfig;
    readonly reader: StepReader;
  }): Promise<void> {
    const { signal, settings } = this.#turn;
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = from.provider;
    const guard = new StallGuard(this.#options.clock, { timeoutMs, signal });
    const { temperature, topP, maxOutputTokens, stop, seed } = settings;
    guard.alive();
    try {
      const begun = from.sdk.experimental_streamLanguageModelCall({
        model: from.model,
        tools: this.#tools(from.sdk),
        ...(this.#instructions === "" ? {} : { instructions: this.#instructions }),
        messages: this.#messages,
        abortSignal: guard.signal,
        ...(temperature === undefined ? {} : { temperature }),
        ...(topP === undefined ? {} : { topP }),
        ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
        ...(stop === undefined ? {} : { stopSequences: [...stop] }),
        ...(seed === undefined ? {} : { seed }),
        ...reasoning(settings.reasoningEffort),
      });
      await guard.read(begun, (part) => from.reader.take(part));
    } catch (error) {
      // Whatever the SDK makes of an abort, the reason is the one that was given.
      throw guard.signal.aborted ? guard.signal.reason : error;
    } finally {
      guard.end();
    }
  }

  #tools(sdk: ModelSdk): ToolSet {
    const { checkInput } = this.#options;
    const tools = this.#turn.tools.map((spec) => {
      const validate = (value: unknown) => {
        const problem = checkInput?.(spec, value);
        return problem === undefined
          ? { success: true as const, value }
          : { success: false as const, error: new Error(problem) };
      };
      const inputSchema = sdk.jsonSchema(spec.parameters as never, { validate });
      return [spec.name, sdk.tool({ description: spec.description, inputSchema })] as const;
    });
    return Object.fromEntries(tools) as ToolSet;
  }

  #steer(): readonly Message[] {
    const texts = this.#turn.ports.takeSteers();
    this.#messages.push(...texts.map((text) => ({ role: "user" as const, content: text })));
    return texts.map((text) => ({ role: "user", text }));
  }

  async #answer(calls: readonly ToolCall[], isCut: boolean): Promise<readonly ToolMessage[]> {
    const { ports, signal } = this.#turn;
    return Promise.all(
      calls.map(async (call) => {
        const isOver = isCut || signal.aborted;
        const text = "The turn was cut before the call began.";
        const answer = isOver ? { status: "aborted" as const, text } : await ports.callTool(call);
        return { role: "tool" as const, callId: call.callId, tool: call.tool, ...answer };
      }),
    );
  }

  /** Saves a step. Its first `known` messages are in the conversation already. */
  #keep(messages: readonly Message[], usage: Usage, known: number): void {
    this.#usage = addUsage(this.#usage, usage);
    this.#messages.push(...toModelMessages(messages.slice(known)));
    if (messages.length > 0) this.#turn.ports.saveStep({ messages, usage });
  }

  #translate(error: unknown, provider: ProviderConfig): TurnError {
    const { log, clock } = this.#options;
    const told = toTurnError(error, provider, clock.now());
    log.warn("a model call failed", {
      run: this.#turn.runId,
      provider: provider.name,
      told: told.message,
      error: withoutBody(error),
    });
    return told;
  }

  #end(stop: StopReason, error?: TurnError): TurnEnd {
    return { stop, text: this.#text, usage: this.#usage, ...(error ? { error } : {}) };
  }
}

async function loadSdk(): Promise<ModelSdk> {
  // Else the SDK writes its advice to stderr, between the lines of the log.
  (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}

function assistantMessage({ parts }: StepResult, interrupted: boolean): readonly AssistantMessage[] {
  return parts.length === 0 ? [] : [{ role: "assistant", parts, ...(interrupted ? { interrupted } : {}) }];
}

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** Unknown efforts are left out: the format lets any text through, providers do not. */
function reasoning(effort: string | undefined) {
  const known = EFFORTS.find((each) => each === effort);
  return known === undefined ? {} : { reasoning: known };
}

function retryText(provider: ProviderConfig, waitMs: number): string {
  return `The provider ${provider.name} failed; trying again in ${Math.ceil(waitMs / 100) / 10} seconds.`;
}

/** The SDK's errors, their messages too, repeat the prompt and the answer's body; neither belongs into the log. */
function withoutBody(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error;
  const { statusCode } = error as { statusCode?: number };
  return { name: error.name, ...(statusCode === undefined ? {} : { statusCode }) };
}
