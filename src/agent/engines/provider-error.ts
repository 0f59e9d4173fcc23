import type { ProviderFailure } from "../../../generated/http/client/types.gen.ts";
import type { TurnEnd } from "../engine.ts";
import type { ProviderConfig } from "./providers.ts";

export type TurnError = NonNullable<TurnEnd["error"]>;

/** The model SDK's error for an HTTP answer that was none; told by its form, so that the SDK need not be loaded. */
interface ApiCallError extends Error {
  readonly statusCode?: number;
  readonly isRetryable?: boolean;
  readonly responseHeaders?: Readonly<Record<string, string>>;
}

/** Nothing came from the provider for too long. */
export class StallError extends Error {
  override readonly name = "StallError";
}

/** The answer ended in the middle. */
export class CutError extends Error {
  override readonly name = "CutError";
}

/** Something of ours failed while a provider's answer was taken. */
export class PortError extends Error {
  override readonly name = "PortError";
}

/** A bug or a broken store: nothing that a provider or a user could mend. */
export const internalError: TurnError = {
  code: "internal_error",
  message: "The agent failed inside the server; its log has the details.",
  failure: { kind: "internal", retryable: false },
};

/**
 * What went wrong, in words that say what to do, and of what kind it is. Never holds what the provider wrote: error bodies
 * may repeat keys and prompts; those who need them find them in the provider's own log.
 */
export function toTurnError(error: unknown, provider: ProviderConfig, nowMs: number): TurnError {
  if (error instanceof PortError) return internalError;
  const status = statusOf(error);
  const failure = {
    kind: kindOf(error, status),
    ...(status === undefined ? {} : { status }),
    retryable: isOutage(error) || error instanceof CutError,
  };
  return { ...wordsFor(error, provider, nowMs), failure };
}

function wordsFor(error: unknown, provider: ProviderConfig, nowMs: number): TurnError {
  const who = `The provider ${provider.name}`;
  if (error instanceof StallError) return { code: "agent_timeout", message: `${who} ${error.message}` };
  if (error instanceof CutError) return { code: "agent_incomplete", message: `${who} ${error.message}` };
  if (isContextTooLong(error)) {
    const message = `The conversation is too long for the model of ${provider.name}. Compress it, begin a new session, or choose a model with a longer context.`;
    return { code: "context_too_long", message };
  }
  if (isUnsendable(error)) {
    const message = `${who} has no form for a part of the conversation, such as an attachment of its kind. Leave it out or choose another model.`;
    return { code: "provider_error", message };
  }
  const problem = findProblem(error);
  if (problem !== undefined) return { code: "agent_incomplete", message: `${who} ${problem}` };
  const { statusCode: status } = error as ApiCallError;
  if (status === undefined) {
    const message = `${who} could not be reached${place(provider)}: ${reason(error)}.`;
    return { code: "provider_error", message };
  }
  return refusal(error, status, { provider, nowMs });
}

/** In words for an answer with a status that is no success. */
function refusal(
  error: unknown,
  status: number,
  { provider, nowMs }: { readonly provider: ProviderConfig; readonly nowMs: number },
): TurnError {
  const who = `The provider ${provider.name}`;
  if (status === 401 || status === 403) {
    const message = `${who} does not accept the API key (${status}). Check model.providers.${provider.name}.api_key or the key in .env.`;
    return { code: "provider_error", message };
  }
  if (status === 404) return { code: "model_not_found", message: `${who} does not have this model (404).` };
  if (status === 429) {
    const waitMs = retryAfterMs(error, nowMs);
    const limits = `${who} limits the rate of requests (429).`;
    if (waitMs === undefined) return { code: "provider_error", message: `${limits} Try again later.` };
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const message = `${limits} Try again in ${retryAfterSeconds} seconds.`;
    return { code: "provider_error", message, retryAfterSeconds };
  }
  const kind = status >= 500 ? "failed" : "refused the request";
  return { code: "provider_error", message: `${who} ${kind} (${status}).` };
}

/** What providers answer with when they have too much to do. */
const OVERLOADED: ReadonlySet<number> = new Set([503, 529]);

function kindOf(error: unknown, status: number | undefined): ProviderFailure["kind"] {
  if (error instanceof StallError || error instanceof CutError) return "network";
  if (isContextTooLong(error)) return "context_length";
  if (isUnsendable(error)) return "provider";
  if (status === 401 || status === 403) return "authentication";
  if (status === 429) return "rate_limit";
  if (status !== undefined) return OVERLOADED.has(status) ? "overloaded" : "provider";
  const isBroken = isSuccess((error as ApiCallError).statusCode);
  return isBroken || findProblem(error) === undefined ? "network" : "provider";
}

/** Undefined where the provider gave none, or one that says that all went well. */
function statusOf(error: unknown): number | undefined {
  const { statusCode } = error as ApiCallError;
  return isSuccess(statusCode) ? undefined : statusCode;
}

/** Whether the same call may succeed a little later. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof StallError || error instanceof PortError) return false;
  if (isUnsendable(error) || isContextTooLong(error)) return false;
  const { isRetryable: hint, statusCode } = error as ApiCallError;
  if (isSuccess(statusCode)) return true;
  return hint ?? (statusCode === undefined || statusCode === 429 || statusCode >= 500);
}

/** Whether the provider is out of order, so that another may do better. The request itself is not to blame. */
export function isOutage(error: unknown): boolean {
  return error instanceof StallError || isRetryable(error);
}

/** The model SDK could not put the request into the provider's form. */
function isUnsendable(error: unknown): boolean {
  const name = error instanceof Error ? error.name : "";
  return /^AI_(?:UnsupportedFunctionality|InvalidPrompt|InvalidDataContent|InvalidArgument)Error$/.test(name);
}

/** What was wrong with an answer that had begun; the SDK tells each kind by another class, known here by its name. */
function findProblem(error: unknown): string | undefined {
  const { name, statusCode } = error as ApiCallError;
  if (isSuccess(statusCode) || name === "AI_InvalidResponseDataError")
    return "ended its answer in the middle.";
  if (name === "AI_JSONParseError" || name === "AI_TypeValidationError")
    return "sent what is no answer of its protocol.";
  return name === "AI_StreamProviderError" ? "reported a failure in the middle of its answer." : undefined;
}

/** A broken connection after a good status is told with that status, and not everywhere as one that may pass. */
function isSuccess(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

/** What nobody means, and no timer can hold, is taken for this. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/** What the provider asks to wait: milliseconds, seconds or a date (RFC 9110, 10.2.3). Undefined when it does not say. */
export function retryAfterMs(error: unknown, nowMs: number): number | undefined {
  const headers = (error as ApiCallError).responseHeaders ?? {};
  const waitMs = decimal(headers["retry-after-ms"]) ?? toMs(headers["retry-after"]?.trim() ?? "", nowMs);
  return waitMs === undefined ? undefined : Math.min(Math.max(0, waitMs), MAX_RETRY_AFTER_MS);
}

function toMs(retryAfter: string, nowMs: number): number | undefined {
  const seconds = decimal(retryAfter);
  if (seconds !== undefined) return seconds * 1000;
  // Engines read dates out of almost any text; those of HTTP end like this.
  const dateMs = retryAfter.endsWith(" GMT") ? Date.parse(retryAfter) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : dateMs - nowMs;
}

function decimal(text = ""): number | undefined {
  return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;
}

function place({ baseUrl }: ProviderConfig): string {
  return baseUrl !== undefined && URL.canParse(baseUrl) ? ` at ${new URL(baseUrl).host}` : "";
}

/** Deno says in words what Node says in codes. */
const CODES: readonly (readonly [RegExp, string])[] = [
  [/connection refused/i, "ECONNREFUSED"],
  [/connection reset/i, "ECONNRESET"],
  [/dns error/i, "ENOTFOUND"],
  [/timed out/i, "ETIMEDOUT"],
  [/certificate/i, "the certificate is not trusted"],
];

/** The system's short code, such as ECONNREFUSED, from wherever it hides. */
function reason(error: unknown): string {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < 8; depth++, at = at.cause) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && /^[A-Z_]{3,40}$/.test(code)) return code;
  }
  const words = error instanceof Error ? error.message : "";
  return CODES.find(([pattern]) => pattern.test(words))?.[1] ?? "the connection failed";
}

/** As much of a refusal as is looked at. */
const MAX_CHARACTERS = 4_000;
/** Statuses that a refused context comes with; none at all when the refusal comes inside of a stream. */
const STATUSES = [undefined, 200, 400, 413, 422];

/** What providers say of a context that is too long. Limits of rate are told in other words, and are no overflow. */
const WORDS: readonly RegExp[] = [
  /context_length_exceeded/, // OpenAI, Groq
  /maximum context length (?:is|of)\b/i, // OpenAI, vLLM, DeepSeek, Mistral
  /\bprompt is too long\b/i, // Anthropic
  /input length and `?max_tokens`? exceed context limit/i, // Anthropic
  /input token count.{0,40}exceeds the maximum number of tokens/i, // Google
  /exceed_context_size_error|exceeds the available context size/i, // llama.cpp
  /greater than the context length/i, // LM Studio
  /maximum prompt length is \d/i, // xAI
  /exceeds? the (?:model's )?(?:maximum )?context (?:window|length)/i,
];

/**
 * Whether a provider refused a call because its context is too long. This is the only place that reads what providers write
 * with their refusals, and nothing of it leaves here.
 */
export function isContextTooLong(error: unknown): boolean {
  if (!(error instanceof Error)) return typeof error === "string" && hasWords(error);
  const { statusCode, responseBody, data } = error as Error & {
    readonly statusCode?: number;
    readonly responseBody?: unknown;
    readonly data?: unknown;
  };
  if (!STATUSES.includes(statusCode)) return false;
  return [error.message, responseBody, textOf(data)].some(hasWords);
}

function hasWords(text: unknown): boolean {
  if (typeof text !== "string") return false;
  const start = text.slice(0, MAX_CHARACTERS);
  return WORDS.some((pattern) => pattern.test(start));
}

function textOf(data: unknown): string | undefined {
  try {
    return data === undefined ? undefined : JSON.stringify(data);
  } catch {
    return undefined;
  }
}
