import type { Clock } from "../../base/time.ts";
import type { EngineEvent, EngineTurn, Message, ToolSpec } from "../engine.ts";
import { endModelSpan, startModelSpan } from "../usage/spans.ts";
import type { ModelCallRequest } from "./model-request.ts";
import { AnswerGate, describeFormat, type FormatRequest } from "./output-format.ts";
import { type AnsweringModel, isSdkProvider, type ProviderConfig } from "./providers.ts";
import { toPrompt } from "./prompt.ts";
import { CutError, isRetryable, PortError, retryAfterMs } from "./provider-error.ts";
import { callBySdk } from "./sdk-call.ts";
import { StallGuard } from "./stall-guard.ts";
import { StepReader, type StepResult } from "./step.ts";

const DEFAULT_TIMEOUT_MS = 120_000;
/** More than any model writes at once, and small enough to store without delaying other writes. */
const DEFAULT_ANSWER_BYTES = 1_048_576;

/** The result of a call. An error may follow a partial result. */
interface CallEnd {
  readonly result: StepResult;
  /** True once a part of the answer was emitted: the call must not be repeated. */
  readonly hasEmitted: boolean;
  readonly error?: unknown;
}

interface CallerOptions {
  readonly checkInput?: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  /** Limit of text, reasoning and arguments in one answer. */
  readonly maxAnswerBytes?: number;
}

/** The options of one call besides the turn. */
export interface CallRequest {
  readonly messages: readonly Message[];
  /** Absent: the answer is any text. */
  readonly format?: FormatRequest | undefined;
  /** True: no call follows in this turn. */
  readonly isLast: boolean;
}

interface CallInput extends CallRequest {
  readonly traceparent: string | undefined;
}

/** Makes the model calls of a turn. */
export class ModelCaller {
  /** Holds back answers in a turn with a format. */
  readonly gate: AnswerGate | undefined;
  readonly #callIds = new Set<string>();
  readonly #turn: EngineTurn;
  readonly #options: CallerOptions;

  constructor(turn: EngineTurn, options: CallerOptions) {
    this.#turn = turn;
    this.#options = options;
    this.gate = turn.outputFormat && new AnswerGate((event) => turn.ports.emit(event));
  }

  /** Makes one model call and retries it while that may help. */
  async call(answering: AnsweringModel, request: CallRequest): Promise<CallEnd> {
    const { span: parent, settings } = this.#turn;
    const span = startModelSpan(parent, answering.ref, { provider: answering.provider, settings });
    const end = await this.#call(answering, { ...request, traceparent: span.traceparent });
    const { usage, finish } = end.result;
    endModelSpan(span, { usage, finish, error: end.error });
    return end;
  }

  async #call(answering: AnsweringModel, input: CallInput): Promise<CallEnd> {
    const { signal } = this.#turn;
    const { clock } = this.#options;
    const { provider } = answering;
    const emit = (event: EngineEvent) => this.#emit(event);
    const { maxAnswerBytes: maxBytes = DEFAULT_ANSWER_BYTES } = this.#options;
    let reader = new StepReader(emit, { taken: this.#callIds, maxBytes });
    try {
      await withRetries(
        async () => {
          reader = new StepReader(emit, { taken: this.#callIds, maxBytes });
          await this.#attempt(answering, { ...input, reader });
        },
        {
          clock,
          signal,
          mayRetry: () => !reader.emitted,
          onRetry: (waitMs) => emit({ type: "notice", text: retryText(provider, waitMs) }),
        },
      );
    } catch (error) {
      return { result: reader.result(), hasEmitted: reader.emitted, error };
    }
    const result = reader.result();
    if (reader.isFull) emit({ type: "notice", text: fullText(maxBytes) });
    return { result, hasEmitted: reader.emitted, error: problemOfEnd(result) };
  }

  async #attempt(
    { ref, provider }: AnsweringModel,
    input: CallInput & { readonly reader: StepReader },
  ): Promise<void> {
    const { reader, traceparent } = input;
    const { signal, settings, toolChoice } = this.#turn;
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = provider;
    const drain = () => this.#turn.ports.drain?.();
    const guard = new StallGuard(this.#options.clock, { timeoutMs, signal, drain });
    const request = {
      provider,
      modelId: ref.id,
      ...this.#prompt(input),
      tools: this.#offered(input),
      checkInput: (tool: ToolSpec, value: unknown) => this.#checkInput(tool, value),
      toolChoice,
      format: input.format?.isGiven ? this.#turn.outputFormat : undefined,
      settings,
      traceparent,
    };
    guard.alive();
    try {
      const ports = { guard, reader };
      if (isSdkProvider(provider)) return await callBySdk(provider, request, ports);
      const { callCompatible } = await import("./compatible/call.ts");
      await callCompatible(request, ports);
    } catch (error) {
      // The SDK may wrap an abort; callers need the original reason.
      throw guard.signal.aborted ? guard.signal.reason : error;
    } finally {
      guard.end();
    }
  }

  #prompt({ messages, format }: CallInput): Pick<ModelCallRequest, "instructions" | "messages"> {
    const { outputFormat } = this.#turn;
    const prompt = toPrompt(messages);
    const described = format?.isDescribed && outputFormat ? describeFormat(outputFormat) : "";
    const instructions = [this.#turn.instructions, ...prompt.instructions, described]
      .filter((text) => text !== "")
      .join("\n\n");
    return { instructions, messages: prompt.messages };
  }

  #emit(event: EngineEvent): void {
    try {
      if (this.gate) this.gate.take(event);
      else this.#turn.ports.emit(event);
    } catch (cause) {
      throw new PortError("an event was not accepted", { cause });
    }
  }

  /** The tools of a call. A model that must call one of the client's gets only those in its last call. */
  #offered({ isLast }: CallRequest): readonly ToolSpec[] {
    const { tools, toolChoice, clientTools = [] } = this.#turn;
    const isForced = isLast && toolChoice === "required" && clientTools.length > 0;
    return isForced ? tools.filter(({ name }) => clientTools.includes(name)) : tools;
  }

  /** Arguments of a client's tool are the client's to check. */
  #checkInput(tool: ToolSpec, value: unknown): string | undefined {
    if (this.#turn.clientTools?.includes(tool.name)) return undefined;
    return this.#options.checkInput?.(tool, value);
  }
}

function fullText(maxBytes: number): string {
  return `The answer was cut at the limit of ${maxBytes} bytes (limits.max_answer_bytes).`;
}

/** An answer without a finish reason was interrupted; some providers give an error as the reason. */
function problemOfEnd({ finish }: StepResult): CutError | undefined {
  if (finish === undefined) return new CutError("ended its answer in the middle.");
  return finish === "error" ? new CutError("ended its answer with an error.") : undefined;
}

function retryText(provider: ProviderConfig, waitMs: number): string {
  return `The provider ${provider.name} failed; trying again in ${Math.ceil(waitMs / 100) / 10} seconds.`;
}

const MAX_RETRIES = 2;
const FIRST_WAIT_MS = 250;
/** A longer wait ends the retries with the provider's error. */
const MAX_WAIT_MS = 30_000;

interface RetryOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Returns false once a part of the failed attempt was emitted. */
  readonly mayRetry: () => boolean;
  readonly onRetry: (waitMs: number) => void;
}

/**
 * Repeats `attempt` after temporary failures, at most twice and only while nothing was emitted: after 250 and 500 ms,
 * or after the time that the provider asks for.
 */
async function withRetries<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await attempt();
    } catch (error) {
      if (options.signal.aborted || !options.mayRetry() || retries === MAX_RETRIES || !isRetryable(error))
        throw error;
      const waitMs = retryAfterMs(error, options.clock.now()) ?? FIRST_WAIT_MS * 2 ** retries;
      if (waitMs > MAX_WAIT_MS) throw error;
      options.onRetry(waitMs);
      await options.clock.sleep(waitMs, { signal: options.signal });
    }
  }
}
