import type { ProviderFailure } from "../../../generated/http/client/types.gen.ts";
import type { TurnEnd } from "../engine.ts";
import type { ProviderConfig } from "./providers.ts";

export type TurnError = NonNullable<TurnEnd["error"]>;

/** The model SDK's HTTP error, recognised by its shape so that the SDK need not be loaded. */
interface ApiCallError extends Error {
  readonly statusCode?: number;
  readonly isRetryable?: boolean;
  readonly responseHeaders?: Readonly<Record<string, string>>;
}

/** The provider sent nothing for too long. */
export class StallError extends Error {
  override readonly name = "StallError";
}

/** The answer ended early. */
export class CutError extends Error {
  override readonly name = "CutError";
}

/** A port of ours failed while it took a provider's answer. */
export class PortError extends Error {
  override readonly name = "PortError";
}

/** A bug or a broken store, which neither a provider nor a user can fix. */
export const internalError: TurnError = {
  code: "internal_error",
  message: "The agent failed inside the server; the service's log has the details.",
  failure: { kind: "internal", retryable: false },
};

/**
 * Converts an error to a message that says what to do, and to a kind. Never includes the provider's text: response
 * bodies may repeat keys and prompts. The provider's own log has them.
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
    const message = `The conversation is too long for the model of ${provider.name}. Compress it, start a new session, or choose a model with a longer context.`;
    return { code: "context_too_long", message };
  }
  if (isUnsendable(error)) {
    const message = `${who} does not support a part of the conversation, such as an attachment of its type. Remove the part or choose another model.`;
    return { code: "provider_error", message };
  }
  const problem = findProblem(error);
  if (problem !== undefined) return { code: "agent_incomplete", message: `${who} ${problem}` };
  const { statusCode: status } = error as ApiCallError;
  if (status === undefined) {
    const message = `${who} could not be reached${endpointOf(provider)}: ${reason(error)}.`;
    return { code: "provider_error", message };
  }
  return refusal(error, status, { provider, nowMs });
}

/** Describes a response with an error status. */
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

/** Statuses of an overloaded provider. */
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

/** Returns undefined for an error without a status or with a success status. */
function statusOf(error: unknown): number | undefined {
  const { statusCode } = error as ApiCallError;
  return isSuccess(statusCode) ? undefined : statusCode;
}

/** Returns whether the same call may succeed a little later. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof StallError || error instanceof PortError) return false;
  if (isUnsendable(error) || isContextTooLong(error)) return false;
  const { isRetryable: hint, statusCode } = error as ApiCallError;
  if (isSuccess(statusCode)) return true;
  return hint ?? (statusCode === undefined || statusCode === 429 || statusCode >= 500);
}

/** Returns whether the provider is unavailable, so that another may succeed. The request itself is not the cause. */
export function isOutage(error: unknown): boolean {
  return error instanceof StallError || isRetryable(error);
}

/** Returns whether the model SDK could not convert the request to the provider's form. */
function isUnsendable(error: unknown): boolean {
  const name = error instanceof Error ? error.name : "";
  return /^AI_(?:UnsupportedFunctionality|InvalidPrompt|InvalidDataContent|InvalidArgument)Error$/.test(name);
}

/** Returns what was wrong with an answer that had started, by the name of the SDK's error class. */
function findProblem(error: unknown): string | undefined {
  const { name, statusCode } = error as ApiCallError;
  if (isSuccess(statusCode) || name === "AI_InvalidResponseDataError") return "ended its answer early.";
  if (name === "AI_JSONParseError" || name === "AI_TypeValidationError")
    return "sent an answer that violates its protocol.";
  return name === "AI_StreamProviderError" ? "reported a failure in the middle of its answer." : undefined;
}

/** The SDK reports a connection that broke after a success status with that status, and not always as retryable. */
function isSuccess(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

/** Upper limit for a wait: longer ones are mistakes, and timers cannot hold them. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/**
 * Returns the wait that the provider asks for: milliseconds, seconds or a date (RFC 9110, 10.2.3). Undefined without
 * one.
 */
export function retryAfterMs(error: unknown, nowMs: number): number | undefined {
  const headers = (error as ApiCallError).responseHeaders ?? {};
  const waitMs = decimal(headers["retry-after-ms"]) ?? toMs(headers["retry-after"]?.trim() ?? "", nowMs);
  return waitMs === undefined ? undefined : Math.min(Math.max(0, waitMs), MAX_RETRY_AFTER_MS);
}

function toMs(retryAfter: string, nowMs: number): number | undefined {
  const seconds = decimal(retryAfter);
  if (seconds !== undefined) return seconds * 1000;
  // Date.parse accepts almost any text; HTTP dates end in GMT.
  const dateMs = retryAfter.endsWith(" GMT") ? Date.parse(retryAfter) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : dateMs - nowMs;
}

function decimal(text = ""): number | undefined {
  return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;
}

function endpointOf({ baseUrl }: ProviderConfig): string {
  return baseUrl !== undefined && URL.canParse(baseUrl) ? ` at ${new URL(baseUrl).host}` : "";
}

/** Deno's messages for Node's error codes. */
const CODES: readonly (readonly [RegExp, string])[] = [
  [/connection refused/i, "ECONNREFUSED"],
  [/connection reset/i, "ECONNRESET"],
  [/dns error/i, "ENOTFOUND"],
  [/timed out/i, "ETIMEDOUT"],
  [/certificate/i, "the certificate is not trusted"],
];

/** Returns the system's error code, such as ECONNREFUSED, from any depth of causes. */
function reason(error: unknown): string {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < 8; depth++, at = at.cause) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && /^[A-Z_]{3,40}$/.test(code)) return code;
  }
  const words = error instanceof Error ? error.message : "";
  return CODES.find(([pattern]) => pattern.test(words))?.[1] ?? "the connection failed";
}

/** Only the beginning of a response is searched. */
const MAX_CHARACTERS = 4_000;
/** Statuses of a refused context; undefined when the error arrives inside a stream. */
const STATUSES = [undefined, 200, 400, 413, 422];

/** Providers' messages for a context that is too long. Rate limits use other words and do not match. */
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
 * Returns whether a provider refused a call because its context is too long. Only this function reads the providers'
 * messages, and none of their text leaves it.
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
