import type { ErrorEnvelope } from "../../generated/http/client/types.gen.ts";

/** The body of an error. The code may be unknown to this client: proxies and newer servers answer too. */
export type ApiErrorBody = Omit<ErrorEnvelope["error"], "code"> & { readonly code: string };

export interface ClientOptions {
  /** Such as `http://127.0.0.1:8642`, with or without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly fetch?: typeof fetch;
}

/** Returns the address that the paths of the API are appended to. OpenAI clients are given it with `/v1`. */
export function serverUrl({ baseUrl }: ClientOptions): string {
  return baseUrl.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/**
 * Sends one request, once. Throws AgentApiError for an error response, AgentConnectionError without a response, and
 * the reason of `init.signal` when it is aborted.
 */
export async function send(options: ClientOptions, path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (options.apiKey !== undefined) headers.set("authorization", `Bearer ${options.apiKey}`);
  const call = options.fetch ?? fetch;
  const response = await call(serverUrl(options) + path, { ...init, headers }).catch((error: unknown) => {
    throw init.signal?.aborted === true ? error : new AgentConnectionError(error);
  });
  if (response.ok) return response;
  throw new AgentApiError(response.status, errorOf(response, await readText(response)), response.headers);
}

/** Returns the error of a response. A proxy may have answered instead of the server. */
export function errorOf({ status }: Response, text: string): ApiErrorBody {
  try {
    const { error } = JSON.parse(text) as Partial<ErrorEnvelope>;
    if (typeof error?.message === "string") return error;
  } catch {
    // Not JSON: only the status is known.
  }
  const message = `The server answered ${status}.`;
  return { message, type: "server_error", param: null, code: "unknown_error" };
}

async function readText(response: Response): Promise<string> {
  return response.text().catch(() => "");
}

/** The class of every failure of this client, except an abort: an aborted call throws the reason of its signal. */
export class AgentdError extends Error {
  override readonly name: string = "AgentdError";
}

/** The server was not reached, or the connection broke before the answer was complete. */
export class AgentConnectionError extends AgentdError {
  override readonly name: string = "AgentConnectionError";

  constructor(cause: unknown, message = "The connection to the server failed.") {
    super(reasonOf(cause) === "" ? message : `${message} ${reasonOf(cause)}`, { cause });
  }
}

/** Returns the innermost message: `fetch` says `fetch failed`, and its cause what happened. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const inner = reasonOf(error.cause);
  return inner === "" ? error.message.replace(BROWSER_WORDS, "") : inner;
}

/** What Chromium, Firefox and Safari say of any request without a response. It explains nothing. */
const BROWSER_WORDS = /^(Failed to fetch|NetworkError when attempting to fetch resource\.|Load failed)$/;

/** An error response of the server, or an error that ended a stream. */
export class AgentApiError extends AgentdError {
  override readonly name = "AgentApiError";
  /** HTTP status; 0 for an error inside a stream. */
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly param: string | null;
  /** Further data of the error, if any. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly requestId: string | undefined;
  /** The run that failed, if one had begun. */
  readonly runId: string | undefined;
  /** Value of `Retry-After`, if any. */
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, body: ApiErrorBody, headers?: Headers) {
    super(body.message);
    this.status = status;
    this.type = body.type;
    this.code = body.code;
    this.param = body.param;
    this.details = body.details;
    this.requestId = headers?.get("x-request-id") ?? undefined;
    this.runId = headers?.get("x-agent-run-id") ?? undefined;
    const wait = Number(headers?.get("retry-after") ?? Number.NaN);
    this.retryAfterSeconds = Number.isFinite(wait) ? wait : undefined;
  }
}

/** A stream that was cut and cannot be resumed. Whether the run continues depends on `agent.on_disconnect`. */
export class StreamCutError extends AgentConnectionError {
  override readonly name = "StreamCutError";
  /** The run to follow with `streamRunEvents`. */
  readonly runId: string | undefined;

  constructor(runId: string | undefined, cause?: unknown) {
    super(cause, "The stream was cut before its end.");
    this.runId = runId;
  }
}

export interface ResumeOptions {
  readonly signal?: AbortSignal | undefined;
  /** Most consecutive connections without an event before the stream fails; default 10. */
  readonly maxAttempts?: number | undefined;
}

export interface StreamRequest extends ResumeOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** The server creates one run for all requests with this key. */
  readonly idempotencyKey?: string;
}

export interface Posted {
  readonly response: Response;
  readonly runId: string | undefined;
  /** Whether the run continues when the connection is cut, so that its stream can be resumed. */
  readonly isDetached: boolean;
}

interface Streamable {
  readonly agent?: { readonly on_disconnect?: "cancel" | "continue" };
}

/** Sends a request for a stream, once. By default its run outlives the connection. */
export async function post(
  options: ClientOptions,
  path: string,
  body: Streamable,
  { headers, idempotencyKey, signal }: StreamRequest,
): Promise<Posted> {
  const on_disconnect = body.agent?.on_disconnect ?? "continue";
  const response = await send(options, path, {
    method: "POST",
    body: JSON.stringify({ ...body, agent: { ...body.agent, on_disconnect }, stream: true }),
    headers: {
      "content-type": "application/json",
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      ...headers,
    },
    ...(signal ? { signal } : {}),
  });
  const runId = response.headers.get("x-agent-run-id") ?? undefined;
  return { response, runId, isDetached: on_disconnect === "continue" };
}

/** Stops a run that has no reader any more. Best effort: errors are ignored. */
export function stopRun(options: ClientOptions, runId: string | undefined): void {
  if (runId === undefined) return;
  const path = `/v1/runs/${encodeURIComponent(runId)}/stop`;
  send(options, path, { method: "POST" })
    .then((response) => response.body?.cancel())
    .catch(() => {});
}
