import type * as Sdk from "ai";
import type { ToolSet } from "ai";
import type { Clock } from "../../base/clock.ts";
import type { EngineEvent, EngineTurn, ToolChoice, ToolSpec } from "../engine.ts";
import type { Message } from "../message.ts";
import { endModelSpan, startModelSpan } from "../usage/span.ts";
import type { AnsweringModel, ProviderConfig } from "./providers.ts";
import { toPrompt } from "./prompt.ts";
import { CutError, isRetryable, PortError, retryAfterMs, StallError } from "./provider-error.ts";
import { StepReader, type StepResult } from "./step.ts";

const DEFAULT_TIMEOUT_MS = 120_000;
/** More than any model writes at once, and small enough to store without delaying other writes. */
const DEFAULT_ANSWER_BYTES = 1_048_576;

type ModelSdk = typeof Sdk;

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

interface CallInput {
  readonly messages: readonly Message[];
  readonly traceparent: string | undefined;
}

/** Makes the model calls of a turn. */
export class ModelCaller {
  readonly #callIds = new Set<string>();
  readonly #sdk: ModelSdk;
  readonly #turn: EngineTurn;
  readonly #options: CallerOptions;
  /** A tool choice applies to the first answer only; otherwise the turn would never end. */
  #hasAnswered = false;

  constructor(sdk: ModelSdk, turn: EngineTurn, options: CallerOptions) {
    this.#sdk = sdk;
    this.#turn = turn;
    this.#options = options;
  }

  /** Makes one model call and retries it while that may help. */
  async call(answering: AnsweringModel, messages: readonly Message[]): Promise<CallEnd> {
    const { span: parent, settings } = this.#turn;
    const span = startModelSpan(parent, answering.ref, { provider: answering.provider, settings });
    const end = await this.#call(answering, { messages, traceparent: span.traceparent });
    const { usage, finish } = end.result;
    endModelSpan(span, { usage, finish, error: end.error });
    return end;
  }

  async #call(answering: AnsweringModel, { messages, traceparent }: CallInput): Promise<CallEnd> {
    const { signal, ports } = this.#turn;
    const { clock } = this.#options;
    const { provider } = answering;
    const emit = (event: EngineEvent) => {
      try {
        ports.emit(event);
      } catch (cause) {
        throw new PortError("an event was not accepted", { cause });
      }
    };
    const { maxAnswerBytes: maxBytes = DEFAULT_ANSWER_BYTES } = this.#options;
    let reader = new StepReader(emit, { taken: this.#callIds, maxBytes });
    try {
      await withRetries(
        async () => {
          reader = new StepReader(emit, { taken: this.#callIds, maxBytes });
          await this.#attempt(answering, { messages, traceparent, reader });
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
    this.#hasAnswered = true;
    const result = reader.result();
    if (reader.isFull) emit({ type: "notice", text: fullText(maxBytes) });
    return { result, hasEmitted: reader.emitted, error: problemOfEnd(result) };
  }

  async #attempt(
    { model, provider }: AnsweringModel,
    { messages, traceparent, reader }: CallInput & { readonly reader: StepReader },
  ): Promise<void> {
    const { signal, settings, toolChoice } = this.#turn;
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = provider;
    const guard = new StallGuard(this.#options.clock, { timeoutMs, signal });
    const { temperature, topP, maxOutputTokens, stop, seed } = settings;
    const prompt = toPrompt(messages);
    const instructions = [this.#turn.instructions, ...prompt.instructions]
      .filter((text) => text !== "")
      .join("\n\n");
    guard.alive();
    try {
      const begun = this.#sdk.experimental_streamLanguageModelCall({
        model,
        tools: this.#tools(),
        ...(toolChoice === undefined || this.#hasAnswered ? {} : { toolChoice: toSdkChoice(toolChoice) }),
        ...(instructions === "" ? {} : { instructions }),
        messages: prompt.messages,
        abortSignal: guard.signal,
        ...(traceparent === undefined ? {} : { headers: { traceparent } }),
        ...(temperature === undefined ? {} : { temperature }),
        ...(topP === undefined ? {} : { topP }),
        ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
        ...(stop === undefined ? {} : { stopSequences: [...stop] }),
        ...(seed === undefined ? {} : { seed }),
        ...reasoning(settings.reasoningEffort),
      });
      await guard.read(begun, (part) => {
        reader.take(part);
        return reader.isFull;
      });
    } catch (error) {
      // The SDK may wrap an abort; callers need the original reason.
      throw guard.signal.aborted ? guard.signal.reason : error;
    } finally {
      guard.end();
    }
  }

  #tools(): ToolSet {
    const sdk = this.#sdk;
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
}

export async function loadSdk(): Promise<ModelSdk> {
  // Stops the SDK from writing advice to stderr between the log's lines.
  (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}

function fullText(maxBytes: number): string {
  return `The answer was cut at the limit of ${maxBytes} bytes (limits.max_answer_bytes).`;
}

/** An answer without a finish reason was interrupted; some providers give an error as the reason. */
function problemOfEnd({ finish }: StepResult): CutError | undefined {
  if (finish === undefined) return new CutError("ended its answer in the middle.");
  return finish === "error" ? new CutError("ended its answer with an error.") : undefined;
}

function toSdkChoice(choice: ToolChoice) {
  return choice === "required" ? choice : { type: "tool" as const, toolName: choice.tool };
}

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** Omits unknown efforts: the API accepts any text, providers do not. */
function reasoning(effort: string | undefined) {
  const known = EFFORTS.find((each) => each === effort);
  return known === undefined ? {} : { reasoning: known };
}

function retryText(provider: ProviderConfig, waitMs: number): string {
  return `The provider ${provider.name} failed; trying again in ${Math.ceil(waitMs / 100) / 10} seconds.`;
}

/**
 * Aborts a model call when its turn is stopped or the provider sends nothing for `timeoutMs`. It does not rely on the
 * request to notice: on Deno a running fetch can lose its signal to the garbage collector and would never end.
 */
class StallGuard {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #turn: AbortSignal;
  readonly #abort = new AbortController();
  readonly #follow = () => this.#abort.abort(this.#turn.reason);
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, options: { readonly timeoutMs: number; readonly signal: AbortSignal }) {
    this.#clock = clock;
    this.#timeoutMs = options.timeoutMs;
    this.#turn = options.signal;
    if (this.#turn.aborted) this.#follow();
    else this.#turn.addEventListener("abort", this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  alive(): void {
    this.#cancel?.();
    const seconds = this.#timeoutMs / 1000;
    const expire = () => this.#abort.abort(new StallError(`sent nothing for ${seconds} seconds.`));
    this.#cancel = this.#clock.after(this.#timeoutMs, expire);
  }

  /** Passes the parts of the answer to `take` until it returns true. Rejects with the guard's reason once it aborts. */
  async read<T>(
    start: PromiseLike<{ readonly stream: ReadableStream<T> }>,
    take: (part: T) => boolean,
  ): Promise<void> {
    const reader = await this.#begin(start);
    // Cancelling a stream ends its pending read at once, whatever its source does.
    const cancel = () => void reader.cancel().catch(() => undefined);
    this.signal.addEventListener("abort", cancel, { once: true });
    try {
      for (;;) {
        this.signal.throwIfAborted();
        const { done, value } = await reader.read();
        if (done) break;
        this.alive();
        if (take(value)) break;
      }
      this.signal.throwIfAborted();
    } finally {
      this.signal.removeEventListener("abort", cancel);
      cancel();
    }
  }

  /** Resolves to the started answer, or rejects with the guard's reason and cancels an answer that starts too late. */
  #begin<T>(
    start: PromiseLike<{ readonly stream: ReadableStream<T> }>,
  ): Promise<ReadableStreamDefaultReader<T>> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(this.signal.reason);
      this.signal.addEventListener("abort", onAbort, { once: true });
      if (this.signal.aborted) onAbort();
      start.then(({ stream }) => {
        this.signal.removeEventListener("abort", onAbort);
        const reader = stream.getReader();
        if (this.signal.aborted) reader.cancel().catch(() => undefined);
        resolve(reader);
      }, reject);
    });
  }

  end(): void {
    this.#cancel?.();
    this.#turn.removeEventListener("abort", this.#follow);
  }
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
