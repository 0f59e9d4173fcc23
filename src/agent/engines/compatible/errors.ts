/** Errors of chat completions, in the shapes of the model SDK's, which `provider-error.ts` knows. */
import { APICallError } from "@ai-sdk/provider";
import { isRecord } from "../../../base/data.ts";
import type { PostedAnswer } from "../../../base/net/post-stream.ts";
import { isErrorFrame } from "./chunk.ts";

/** A failure that the provider reports in the middle of its answer. */
class StreamProviderError extends Error {
  override readonly name = "AI_StreamProviderError";
  readonly statusCode: number | undefined;
  readonly isRetryable: boolean;
  readonly data: unknown;

  constructor(error: Readonly<Record<string, unknown>>) {
    super(String(error["message"]));
    this.statusCode = statusOf(error) ?? STATUS_OF_MESSAGE.get(this.message.trim().toLowerCase());
    const { isRetryable, is_retryable: retryable = isRetryable } = error;
    this.isRetryable = typeof retryable === "boolean" ? retryable : isTemporary(this.statusCode);
    this.data = error;
  }
}

/** Returns the error of a frame; anything without a message is passed on as it is. */
export function toStreamError(error: unknown): unknown {
  if (!isRecord(error)) return error;
  const inner = isRecord(error["error"]) ? error["error"] : error;
  return typeof inner["message"] === "string" ? new StreamProviderError({ ...error, ...inner }) : error;
}

/** Messages that say no more than a status would. */
const STATUS_OF_MESSAGE: ReadonlyMap<string, number> = new Map([
  ["overloaded", 503],
  ["overloaded error", 503],
  ["model overloaded", 503],
  ["internal server error", 500],
  ["service unavailable", 503],
]);

function statusOf(error: Readonly<Record<string, unknown>>): number | undefined {
  const candidates = [error["statusCode"], error["status_code"], error["status"], error["code"]];
  return candidates
    .map((value) => (typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value))
    .find((value): value is number => Number.isInteger(value) && Number(value) >= 400 && Number(value) < 600);
}

function isTemporary(status: number | undefined): boolean {
  return status !== undefined && ([408, 409, 429].includes(status) || status >= 500);
}

/** Of a refusal; the rest is not read. */
const MAX_REFUSAL_BYTES = 65_536;

/** Resolves to the error of an answer with an error status. `body` is the JSON of the request. */
export async function toRefusal(url: string, body: string, answer: PostedAnswer): Promise<APICallError> {
  const { status: statusCode, headers: responseHeaders, statusText } = answer;
  const responseBody = await headOfBody(answer.body);
  const data = toJson(responseBody);
  return new APICallError({
    message: isErrorFrame(data) ? data.error.message : statusText,
    url,
    requestBodyValues: toJson(body),
    statusCode,
    responseHeaders,
    responseBody,
    ...(isErrorFrame(data) ? { data } : {}),
  });
}

async function headOfBody(body: PostedAnswer["body"]): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= MAX_REFUSAL_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, MAX_REFUSAL_BYTES).toString();
}

function toJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the error of a request that got no answer. */
export function toConnectionError(url: string, cause: unknown): APICallError {
  const message = `Cannot connect to API: ${cause instanceof Error ? cause.message : String(cause)}`;
  return new APICallError({ message, cause, url, requestBodyValues: {}, isRetryable: true });
}

/** Returns the error of an answer that broke off. */
export function toBrokenAnswer(url: string, { status, headers }: PostedAnswer, cause: unknown): APICallError {
  return new APICallError({
    message: "Failed to process successful response",
    cause,
    url,
    requestBodyValues: {},
    statusCode: status,
    responseHeaders: headers,
    isRetryable: true,
  });
}
