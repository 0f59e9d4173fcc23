import type { Clock } from "../../base/time.ts";
import { LruMap } from "../../base/data.ts";
import type { Log } from "../../base/observe.ts";
import { zeroUsage } from "../usage/usage.ts";
import type { Engine, EngineTurn, Message, ToolSpec } from "../engine.ts";
import { type ModelRef, formatModel } from "../model.ts";
import { ModelCaller } from "./model-call.ts";
import { formattedStep, type FormatRequest } from "./output-format.ts";
import { type AnsweringModel, FallbackChain, type ProviderConfig } from "./providers.ts";
import {
  internalError,
  isContextTooLong,
  isOutage,
  mayRefuseParameter,
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
  const support = new LruMap<string, FormatSupport>(MAX_MODELS);
  return {
    name: "model",
    runTurn: async (turn) => {
      const { provider } = turn.model;
      if (options.providers.some(({ name }) => name === provider)) {
        return runTurn(turn, new ProviderModel(turn, options, support));
      }
      const message = `No provider is named ${JSON.stringify(provider)}. Add it to model.providers.`;
      return { stop: "error", text: "", usage: zeroUsage, error: { code: "model_not_found", message } };
    },
  };
}

/** What is known about a model: its provider refuses the format, or accepts it and ignores it. */
type FormatSupport = "refuses" | "ignores";

/** Most models about which something is known. */
const MAX_MODELS = 256;

/** Answers with the first model of the chain that responds. */
class ProviderModel implements TurnModel {
  readonly countsContext = true;
  readonly #turn: EngineTurn;
  readonly #options: ModelEngineOptions;
  readonly #chain: FallbackChain;
  readonly #support: LruMap<string, FormatSupport>;
  #caller: ModelCaller | undefined;
  #answering: AnsweringModel | undefined;
  /** The model that refused a call with the format in this turn. */
  #withoutFormat: string | undefined;

  constructor(turn: EngineTurn, options: ModelEngineOptions, support: LruMap<string, FormatSupport>) {
    this.#turn = turn;
    this.#options = options;
    this.#support = support;
    this.#chain = new FallbackChain(turn, options.providers);
  }

  async step(context: StepContext): Promise<Step> {
    this.#caller ??= new ModelCaller(this.#turn, this.#options);
    const { outputFormat: format } = this.#turn;
    const { gate } = this.#caller;
    if (!format || !gate) return this.#answer(this.#caller, context);
    const caller = this.#caller;
    return formattedStep({
      format,
      gate,
      answer: (corrections) => this.#answer(caller, context, corrections),
      refusal: () => context.refusal(this.#answering?.ref ?? this.#turn.model),
      model: () => formatModel(this.#answering?.ref ?? this.#turn.model),
    });
  }

  async #answer(
    caller: ModelCaller,
    context: StepContext,
    corrections: readonly Message[] = [],
  ): Promise<Step> {
    let answering = (this.#answering ??= this.#chain.next());
    if (!answering) throw new Error("no model of the turn has a provider");
    let outage: TurnError | undefined;
    for (;;) {
      const called = await caller.call(answering, {
        messages: [...context.conversation.messages, ...corrections],
        format: this.#requestFormat(answering, { isCorrection: corrections.length > 0 }),
        isLast: context.index + 1 === this.#turn.maxSteps,
      });
      const { hasEmitted, error } = called;
      const result = { ...called.result, usage: context.price(answering.ref, called.result.usage) };
      if (error === undefined) {
        if (this.#withoutFormat !== undefined) this.#support.set(this.#withoutFormat, "refuses");
        return { ...result, stop: stopOf(result), isCut: false };
      }
      if (this.#turn.signal.aborted) return { ...result, isCut: true };
      const cut = (reason: TurnError): Step => ({ ...result, isCut: true, error: reason });
      const turnError = this.#translate(error, answering.provider);
      if (hasEmitted) return cut(turnError);
      if (isContextTooLong(error)) {
        if (!(await context.shrink())) return cut(turnError);
      } else if (this.#mayRefuseFormat(answering, error)) {
        this.#withoutFormat = formatModel(answering.ref);
      } else {
        outage ??= turnError;
        const next = isOutage(error) ? this.#chain.next() : undefined;
        if (!next) return cut(outage);
        this.#turn.ports.emit({ type: "notice", text: switchText(answering.ref, next.ref) });
        this.#answering = answering = next;
      }
      const refusal = context.refusal(answering.ref);
      if (refusal) return cut(refusal);
    }
  }

  /** How the next call asks for the format; undefined in a turn without one. */
  #requestFormat(
    { ref }: AnsweringModel,
    { isCorrection }: { readonly isCorrection: boolean },
  ): FormatRequest | undefined {
    const { outputFormat: format } = this.#turn;
    if (!format) return undefined;
    const isGiven = this.#takesFormat(ref);
    if (isGiven && isCorrection) this.#support.set(formatModel(ref), "ignores");
    const isIgnored = this.#support.get(formatModel(ref)) === "ignores";
    // Without a schema, some providers require that the instructions mention JSON.
    const isDescribed = !isGiven || isIgnored || isCorrection || format.schema === undefined;
    this.#caller?.gate?.open({ isLive: isGiven && !isDescribed });
    return { isGiven, isDescribed };
  }

  /** Returns true when the call may have failed because it carried the format. It is then made without. */
  #mayRefuseFormat({ ref }: AnsweringModel, error: unknown): boolean {
    return this.#turn.outputFormat !== undefined && this.#takesFormat(ref) && mayRefuseParameter(error);
  }

  #takesFormat(ref: ModelRef): boolean {
    const name = formatModel(ref);
    return name !== this.#withoutFormat && this.#support.get(name) !== "refuses";
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
