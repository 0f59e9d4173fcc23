import { isRecord } from "../../base/data.ts";
import { redact } from "../../base/observe.ts";
import { headOf } from "../../base/text.ts";
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
 * Converts an error to a message that says what to do, and to a kind. The words are ours: response bodies may repeat keys
 * and prompts. Only the reason of a refused request (400, 404, 422) that we do not recognise is quoted, see
 * {@link quotedReason}.
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
  const known = REFUSALS.find(({ pattern }) => bodyTexts(error).some((text) => pattern.test(text)));
  if (known && REFUSED_STATUSES.includes(status)) {
    const { code, words } = known;
    return { code, message: `${who} ${words(modelOf(error))} (${status}).` };
  }
  if (status === 401 || status === 403) {
    const message = `${who} does not accept the API key (${status}). Check model.providers.${provider.name}.api_key or the key in .env.`;
    return { code: "provider_error", message };
  }
  if (status === 404) {
    const message = `${who} does not have this model (404)${quotedReason(error, provider)}.`;
    return { code: "model_not_found", message };
  }
  if (status === 429) {
    const waitMs = retryAfterMs(error, nowMs);
    const limits = `${who} limits the rate of requests (429).`;
    if (waitMs === undefined) return { code: "provider_error", message: `${limits} Try again later.` };
    const retryAfterSeconds = Math.ceil(waitMs / 1000);
    const message = `${limits} Try again in ${retryAfterSeconds} seconds.`;
    return { code: "provider_error", message, retryAfterSeconds };
  }
  const kind = status >= 500 ? "failed" : "refused the request";
  const reason = REFUSED_STATUSES.includes(status) ? quotedReason(error, provider) : "";
  return { code: "provider_error", message: `${who} ${kind} (${status})${reason}.` };
}

const REFUSED_STATUSES = [400, 404, 422];

/** Providers' messages for requests that a model or a server cannot take, and what to do. */
const REFUSALS: readonly {
  readonly pattern: RegExp;
  readonly code: TurnError["code"];
  readonly words: (model: string) => string;
}[] = [
  {
    // Ollama, OpenRouter
    pattern:
      /does not support tools|no endpoints found that support tool use|tool(?:s| use| calling) (?:is|are) not supported/i,
    code: "provider_error",
    words: (model) =>
      `does not support tools with the model${model}, and the agent needs them. Choose a model that supports tools`,
  },
  {
    // vLLM, llama.cpp
    pattern: /requires --enable-auto-tool-choice|tools param requires --jinja/i,
    code: "provider_error",
    words: () =>
      "was started without support for tools. Start vLLM with --enable-auto-tool-choice and --tool-call-parser, " +
      "or llama.cpp with --jinja",
  },
  {
    // Ollama
    pattern: /model .{0,200}not found, try pulling it|try pulling it first/i,
    code: "model_not_found",
    words: (model) => `does not have the model${model}. Pull it first, such as with \`ollama pull\``,
  },
  {
    // OpenAI, vLLM, LM Studio
    pattern: /model_not_found|the model .{0,200}does not exist|no models? (?:is |are )?loaded/i,
    code: "model_not_found",
    words: (model) =>
      `does not have the model${model}. List its models with \`agentd model list\` or in its documentation`,
  },
  {
    // OpenAI, Anthropic
    pattern: /insufficient_quota|credit balance is too low|exceeded your current quota/i,
    code: "provider_error",
    words: () =>
      "refuses the request because the account has no credit left. Add credit, or choose another provider",
  },
  {
    // Ollama, OpenRouter, vLLM
    pattern:
      /does not support (?:image|vision)|no endpoints found that support image input|is not a multimodal model/i,
    code: "provider_error",
    words: (model) => `does not take images with the model${model}. Remove them, or choose a model that does`,
  },
];

/** Returns the model of the refused request, quoted and with a space before it; "" when it is unknown. */
function modelOf(error: unknown): string {
  const { requestBodyValues: body } = error as { readonly requestBodyValues?: { readonly model?: unknown } };
  const model = body?.model;
  return typeof model === "string" && /^[\x21-\x7e]{1,256}$/.test(model) ? ` ${JSON.stringify(model)}` : "";
}

function bodyTexts(error: unknown): readonly string[] {
  const { message, responseBody } = error as { readonly message?: unknown; readonly responseBody?: unknown };
  return [message, responseBody].flatMap((text) =>
    typeof text === "string" ? [text.slice(0, MAX_CHARACTERS)] : [],
  );
}

const MAX_REASON_CHARACTERS = 300;
/** Reasons that repeat this much of the request are not quoted: the conversation belongs in no log. */
const REPEATED_CHARACTERS = 24;

/**
 * Returns `: "<reason>"` with the message that the provider put into its JSON response: one line, at most 300 characters,
 * without secrets. "" when it has none, or when it repeats the conversation.
 */
function quotedReason(error: unknown, { apiKey }: ProviderConfig): string {
  const { responseBody, requestBodyValues } = error as {
    readonly responseBody?: unknown;
    readonly requestBodyValues?: unknown;
  };
  const text = typeof responseBody === "string" ? messageIn(responseBody.slice(0, MAX_BODY_CHARACTERS)) : "";
  const hidden = apiKey === undefined || apiKey === "" ? text : text.replaceAll(apiKey, "[redacted]");
  const line = headOf(
    redact(
      hidden
        .replace(/\s+/g, " ")
        .replace(/\p{Cc}/gu, "")
        .trim(),
    ),
    MAX_REASON_CHARACTERS,
  );
  if (line === "" || repeats(requestBodyValues, line)) return "";
  return `: ${JSON.stringify(line.replace(/\.$/, ""))}`;
}

const MAX_BODY_CHARACTERS = 65_536;

/** The usual places: `error.message`, `error`, `message` and `detail`. */
function messageIn(body: string): string {
  try {
    const value: unknown = JSON.parse(body);
    const entry = Array.isArray(value) ? value[0] : value;
    if (!isRecord(entry)) return "";
    const inner = isRecord(entry["error"]) ? entry["error"]["message"] : entry["error"];
    const found = [inner, entry["message"], entry["detail"]].find((each) => typeof each === "string");
    return typeof found === "string" ? found : "";
  } catch {
    return ""; // not JSON: a page of a proxy, for example
  }
}

/** Returns whether the line holds a text of the conversation, or a part of one. */
function repeats(request: unknown, line: string): boolean {
  const texts = conversationTexts(request).filter((text) => text.trim().length >= SHORTEST_TEXT);
  if (texts.some((text) => line.includes(text.trim()))) return true;
  for (let at = 0; at + REPEATED_CHARACTERS <= line.length; at++) {
    const part = line.slice(at, at + REPEATED_CHARACTERS);
    if (texts.some((text) => text.includes(part))) return true;
  }
  return false;
}

const SHORTEST_TEXT = 6;
const CONVERSATION_KEYS = new Set(["messages", "input", "contents", "content", "parts", "text", "output"]);

/** The texts of the messages in a request, in the forms of all providers. */
function conversationTexts(value: unknown): readonly string[] {
  if (typeof value === "string") return [value.replace(/\s+/g, " ")];
  if (Array.isArray(value)) return value.flatMap(conversationTexts);
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, each]) =>
    CONVERSATION_KEYS.has(key) ? conversationTexts(each) : [],
  );
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

/** Returns whether the provider refused the call as it was, perhaps for a parameter that it does not support. */
export function mayRefuseParameter(error: unknown): boolean {
  return isUnsendable(error) || [400, 422, 501].includes(statusOf(error) ?? 0);
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
