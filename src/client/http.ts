/**
 * The client of the HTTP API: typed calls, and streams that resume. No dependencies. docs/typescript-client.md shows its
 * use.
 */
import { createClient, createConfig } from "../../generated/http/client/client/index.ts";
import { AgentClient as GeneratedClient } from "../../generated/http/client/sdk.gen.ts";
import {
  AgentApiError,
  AgentConnectionError,
  AgentdError,
  errorOf,
  serverUrl,
  type ClientOptions,
} from "./request.ts";

export type * from "../../generated/http/client/types.gen.ts";
export {
  AgentApiError,
  AgentConnectionError,
  AgentdError,
  StreamCutError,
  type StreamRequest,
  type ClientOptions,
  type ResumeOptions,
} from "./request.ts";
export { streamChatCompletion } from "./chat-stream.ts";
export {
  followResponse,
  streamFeed,
  streamLogs,
  streamResponse,
  streamRunEvents,
  type FeedRequest,
  type LogRequest,
} from "./streams.ts";

/** One method per operation. Streams are separate functions, because those resume. */
export type AgentClient = Omit<GeneratedClient, "streamRunEvents">;

/**
 * Creates a client for one server. Its methods return `{ data, response }`, and throw AgentApiError for an error
 * response, AgentConnectionError when there is no complete answer, and the reason of an aborted signal.
 */
export function createAgentClient(options: ClientOptions): AgentClient {
  const auth = options.apiKey === undefined ? {} : { auth: () => options.apiKey };
  const fetcher = options.fetch === undefined ? {} : { fetch: options.fetch };
  const config = { baseUrl: serverUrl(options), throwOnError: true, ...auth, ...fetcher };
  const client = createClient(createConfig(config));
  client.interceptors.request.use((request, { body }) => {
    if (!isStreamed(body)) return request;
    throw new AgentdError(
      "This call returns one answer. Call streamChatCompletion or streamResponse instead.",
    );
  });
  client.interceptors.error.use((error, response, _request, { signal }) => {
    if (error instanceof AgentdError || signal?.aborted === true) return error;
    if (response === undefined || response.ok) return new AgentConnectionError(error);
    // The generated client has read the body: it is the text, or the value of its JSON.
    const text = typeof error === "string" ? error : JSON.stringify(error);
    return new AgentApiError(response.status, errorOf(response, text), response.headers);
  });
  return new GeneratedClient({ client });
}

function isStreamed(body: unknown): boolean {
  return typeof body === "object" && body !== null && "stream" in body && body.stream === true;
}
