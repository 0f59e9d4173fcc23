import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { zeroUsage, type Engine, type EngineTurn, type ModelRef, type ToolSpec } from "../engine.ts";
import { formatModel } from "../model.ts";
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
import { runTurn, type Step, type StepContext, type TurnModel } from "./turn.ts";

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
  return {
    name: "model",
    runTurn: async (turn) => {
      const { provider } = turn.model;
      if (options.providers.some(({ name }) => name === provider)) {
        return runTurn(turn, new ProviderModel(turn, options));
      }
      const message = `No provider is named ${JSON.stringify(provider)}. Add it to model.providers.`;
      return { stop: "error", text: "", usage: zeroUsage, error: { code: "model_not_found", message } };
    },
  };
}

/** Answers with the first model of the chain that responds. */
class ProviderModel implements TurnModel {
  readonly countsContext = true;
  readonly #turn: EngineTurn;
  readonly #options: ModelEngineOptions;
  readonly #chain: FallbackChain;
  #caller: ModelCaller | undefined;
  #answering: AnsweringModel | undefined;

  constructor(turn: EngineTurn, options: ModelEngineOptions) {
    this.#turn = turn;
    this.#options = options;
    this.#chain = new FallbackChain(turn, options.providers);
  }

  async step(context: StepContext): Promise<Step> {
    this.#caller ??= new ModelCaller(await loadSdk(), this.#turn, this.#options);
    let answering = (this.#answering ??= await this.#chain.next());
    if (!answering) throw new Error("no model of the turn has a provider");
    let outage: TurnError | undefined;
    for (;;) {
      const { result, hasEmitted, error } = await this.#caller.call(answering, context.conversation.messages);
      if (error === undefined) return { ...result, stop: stopOf(result), isCut: false };
      if (this.#turn.signal.aborted) return { ...result, isCut: true };
      const cut = (reason: TurnError): Step => ({ ...result, isCut: true, error: reason });
      const turnError = this.#translate(error, answering.provider);
      if (hasEmitted) return cut(turnError);
      if (isContextTooLong(error)) {
        if (!(await context.shrink())) return cut(turnError);
      } else {
        outage ??= turnError;
        const next = isOutage(error) ? await this.#chain.next() : undefined;
        if (!next) return cut(outage);
        this.#turn.ports.emit({ type: "notice", text: switchText(answering.ref, next.ref) });
        this.#answering = answering = next;
      }
      const refusal = context.refusal();
      if (refusal) return cut(refusal);
    }
  }

  /** Provider failures are handled where they occur; this is a failing port or a bug. */
  onBug = (error: unknown): TurnError => {
    this.#options.log.error("a turn failed inside the server", { run: this.#turn.runId, error });
    return internalError;
  };

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
}

function stopOf({ finish }: StepResult): Step["stop"] {
  if (finish === "content-filter") return "refusal";
  return finish === "length" ? "length" : undefined;
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
