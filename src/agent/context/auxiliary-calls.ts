import { parseModel, type ModelRef } from "../model.ts";
import { completeOnce, type Refusal, type TurnPorts, type Message } from "../engine.ts";
import { addUsage, zeroUsage, type Usage } from "../usage/usage.ts";
import { ToolError, type Completion } from "../tool/tool.ts";
import type { Span } from "../../base/observe.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Budget } from "../usage/budgets.ts";
import { compress, type CompressionReason } from "./compression.ts";
import type { AgentDeps } from "../deps.ts";
import type { EventWriter } from "../run/event.ts";
import type { RunInput } from "../run/run.ts";

interface AuxiliaryCallsOptions {
  readonly deps: AgentDeps;
  readonly run: RunRow;
  readonly input: RunInput;
  readonly budget: Budget;
  readonly recorder: EventWriter;
  readonly signal: AbortSignal;
  readonly span: Span;
  readonly keepAlive: () => void;
  /** Returns the usage of a call with its cost. */
  readonly price: NonNullable<TurnPorts["price"]>;
}

/** A run's auxiliary model calls: those of tools, and summaries. Their usage counts towards the run. */
export class AuxiliaryCalls {
  readonly #from: AuxiliaryCallsOptions;
  #usage: Usage = zeroUsage;
  /** A compression failed: the run does not repeat it at each step. */
  #cannotCompact = false;

  constructor(from: AuxiliaryCallsOptions) {
    this.#from = from;
  }

  get usage(): Usage {
    return this.#usage;
  }

  /** The model that writes summaries. */
  get summaryModel(): ModelRef {
    const { deps, run } = this.#from;
    return deps.models.resolve(deps.settings.compression.model ?? run.model) ?? parseModel(run.model);
  }

  /** Resolves to why the model may not be called; undefined when it may. */
  async refusal(model: ModelRef): Promise<Refusal | undefined> {
    await this.#from.deps.prices.prepare([model]);
    return this.#from.budget.admit(model);
  }

  async complete(prompt: Completion): Promise<string> {
    const { deps } = this.#from;
    const ref = deps.models.resolve(prompt.model ?? this.#from.run.model);
    if (!ref) throw new ToolError(`No model is named ${JSON.stringify(prompt.model)}.`);
    const refusal = await this.refusal(ref);
    if (refusal) throw new ToolError(refusal.message);
    const { instructions, messages } = prompt;
    const request = {
      runId: this.#from.run.id,
      model: ref,
      instructions,
      messages,
      signal: this.#from.signal,
      span: this.#from.span,
      keepAlive: this.#from.keepAlive,
      price: this.#from.price,
    };
    const { text, usage, error } = await completeOnce(deps.engine, request);
    this.#spend(usage);
    if (error) throw new ToolError(error.message);
    return text;
  }

  /** Compresses the context. Resolves to undefined when nothing could be left out. `saved`: see the port. */
  async compact(
    reason: CompressionReason,
    saved?: readonly Message[],
  ): Promise<readonly Message[] | undefined> {
    const { deps, input } = this.#from;
    const { compression } = deps.settings;
    if (this.#cannotCompact && reason === "near_limit") return undefined;
    await this.#from.recorder.flush();
    const model = this.summaryModel;
    await deps.prices.prepare([model]);
    const done = await compress({
      store: deps.store,
      engine: deps.engine,
      sessionId: this.#from.run.session_id,
      runId: this.#from.run.id,
      model,
      contextTokens: deps.models.contextTokensOf(model),
      keepMessages: compression.keepMessages,
      reason,
      ...(saved === undefined ? {} : { saved }),
      ...(input.focus === undefined ? {} : { focus: input.focus }),
      signal: this.#from.signal,
      span: this.#from.span,
      keepAlive: this.#from.keepAlive,
      price: this.#from.price,
    });
    this.#spend(done.usage);
    this.#cannotCompact = done.status === "failed";
    return done.status === "compressed" ? done.messages : undefined;
  }

  #spend(usage: Usage): void {
    this.#usage = addUsage(this.#usage, usage);
    this.#from.budget.spend(usage);
  }
}
