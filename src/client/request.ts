import type { ErrorEnvelope } from "../../generated/http/client/types.gen.ts";

export interface ClientOptions {
  /** Such as `http://127.0.0.1:8642`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly fetch?: typeof fetch;
}

/** Sends one request, once. AgentApiError for an error answer; what `fetch` throws for none. */
export async function send(options: ClientOptions, path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (options.apiKey !== undefined) headers.set("authorization", `Bearer ${options.apiKey}`);
  const call = options.fetch ?? fetch;
  const response = await call(options.baseUrl.replace(/\/$/, "") + path, { ...init, headers });
  if (response.ok) return response;
  throw new AgentApiError(response.status, await errorOf(response), response.headers);
}

/** Something else than the server, such as a proxy, may have answered. */
async function errorOf(response: Response): Promise<ErrorEnvelope["error"]> {
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as Partial<ErrorEnvelope>;
    if (error) return error;
  } catch {
    // No JSON: the status is all there is to tell.
  }
  const message = `The server answered ${response.status}.`;
  return { message, type: "server_error", param: null, code: "unknown_error" };
}

/** An error answer of the server, or an error that ended a stream. */
export class AgentApiError extends Error {
  override readonly name = "AgentApiError";
  /** HTTP status; 0 for an error that came inside a stream. */
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly param: string | null;
  readonly requestId: string | undefined;
  /** What the server asked to wait, if it did. */
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, body: ErrorEnvelope["error"], headers?: Headers) {
    super(body.message);
    this.status = status;
    this.type = body.type;
    this.code = body.code;
    this.param = body.param;
    this.requestId = headers?.get("x-request-id") ?? undefined;
    const wait = Number(headers?.get("retry-after") ?? Number.NaN);
    this.retryAfterSeconds = Number.isFinite(wait) ? wait : undefined;
  }
}

/** A stream that ended before its end and could not be resumed. The run goes on or not as it was asked to. */
export class StreamCutError extends Error {
  override readonly name = "StreamCutError";
  /** Follow it with `streamRunEvents`. */
  readonly runId: string | undefined;

  constructor(runId: string | undefined, cause?: unknown) {
    super("The stream was cut before its end.", cause === undefined ? undefined : { cause });
    this.runId = runId;
  }
}

export interface ResumeOptions {
  readonly signal?: AbortSignal | undefined;
  /** Connections in a row that may bring nothing before the stream is given up; default 10. */
  readonly maxAttempts?: number | undefined;
}

export interface StreamRequest extends ResumeOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** The server makes one run of all requests with this key. */
  readonly idempotencyKey?: string;
}

export interface Posted {
  readonly response: Response;
  readonly runId: string | undefined;
  /** The run goes on when the connection is cut, so its stream can be resumed. */
  readonly isDetached: boolean;
}

interface Streamable {
  readonly agent?: { readonly on_disconnect?: "cancel" | "continue" };
}

/** Sends a request for a stream, once. Unless it says otherwise its run outlives the connection. */
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

/** Nobody looks at the run any more. Best effort: it ends by itself at the latest. */
export function stopRun(options: ClientOptions, runId: string | undefined): void {
  if (runId === undefined) return;
  const path = `/v1/runs/${encodeURIComponent(runId)}/stop`;
  send(options, path, { method: "POST" })
    .then((response) => response.body?.cancel())
    .catch(() => {});
}
