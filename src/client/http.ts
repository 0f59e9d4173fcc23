import { createClient, createConfig } from "../../generated/http/client/client/index.ts";
import { AgentClient } from "../../generated/http/client/sdk.gen.ts";
import type {
  ChatCompletionChunk,
  ChatCompletionRequest,
  ErrorEnvelope,
  RunEvent,
} from "../../generated/http/client/types.gen.ts";

export type * from "../../generated/http/client/types.gen.ts";
export { AgentClient };

export interface ClientOptions {
  /** Such as `http://127.0.0.1:8642`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly fetch?: typeof fetch;
}

/** An error answer of the server, or an error that ended a stream. */
export class AgentApiError extends Error {
  override readonly name = "AgentApiError";
  /** HTTP status; 0 for an error that came inside a stream. */
  readonly status: number;
  readonly code: string;

  constructor(status: number, body: ErrorEnvelope["error"]) {
    super(body.message);
    this.status = status;
    this.code = body.code;
  }
}

/** The generated client of the HTTP API, bound to one server. Has no dependencies. */
export function createAgentClient(options: ClientOptions): AgentClient {
  const auth = options.apiKey === undefined ? {} : { auth: () => options.apiKey };
  const fetcher = options.fetch === undefined ? {} : { fetch: options.fetch };
  return new AgentClient({
    client: createClient(createConfig({ baseUrl: options.baseUrl, ...auth, ...fetcher })),
  });
}

/**
 * The chunks of one streamed chat completion. The request is sent once, never again: a repeated prompt would be a
 * second turn. AgentApiError for an error answer and for an error frame.
 */
export async function* streamChatCompletion(
  options: ClientOptions,
  body: Omit<ChatCompletionRequest, "stream">,
  request: { readonly headers?: Readonly<Record<string, string>>; readonly signal?: AbortSignal } = {},
): AsyncGenerator<ChatCompletionChunk> {
  const response = await send(options, "/v1/chat/completions", {
    method: "POST",
    body: JSON.stringify({ ...body, stream: true }),
    headers: { "content-type": "application/json", ...request.headers },
    ...(request.signal ? { signal: request.signal } : {}),
  });
  for await (const { data } of events(response)) {
    if (data === "[DONE]") return;
    const frame = JSON.parse(data) as ChatCompletionChunk | ErrorEnvelope;
    if ("error" in frame) throw new AgentApiError(0, frame.error);
    yield frame;
  }
  throw new AgentApiError(0, {
    message: "The stream was cut.",
    type: "server_error",
    param: null,
    code: "stream_cut",
  });
}

/**
 * The events of a run, from the one after `after` to its final one. One connection; to go on after a cut, call again
 * with the `seq` of the last event seen. AgentApiError for an error answer.
 */
export async function* streamRunEvents(
  options: ClientOptions,
  runId: string,
  request: { readonly after?: number; readonly signal?: AbortSignal } = {},
): AsyncGenerator<RunEvent> {
  const headers: Record<string, string> = {};
  if (request.after !== undefined) headers["last-event-id"] = String(request.after);
  const init = { headers, ...(request.signal ? { signal: request.signal } : {}) };
  const response = await send(options, `/v1/runs/${encodeURIComponent(runId)}/events`, init);
  for await (const { data } of events(response)) yield JSON.parse(data) as RunEvent;
}

async function send(options: ClientOptions, path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (options.apiKey !== undefined) headers.set("authorization", `Bearer ${options.apiKey}`);
  const call = options.fetch ?? fetch;
  const response = await call(options.baseUrl.replace(/\/$/, "") + path, { ...init, headers });
  if (response.ok) return response;
  throw new AgentApiError(response.status, ((await response.json()) as ErrorEnvelope).error);
}

/** Server-sent events (WHATWG HTML, 9.2), as far as this server uses them: one data line an event. */
async function* events(response: Response): AsyncGenerator<{ readonly data: string }> {
  if (!response.body) return;
  let buffer = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    buffer += decoder.decode(bytes, { stream: true });
    const frames = buffer.split("\n\n");
    buffer = frames.pop() ?? "";
    for (const frame of frames) {
      const line = frame.split("\n").find((candidate) => candidate.startsWith("data: "));
      if (line !== undefined) yield { data: line.slice("data: ".length) };
    }
  }
}
