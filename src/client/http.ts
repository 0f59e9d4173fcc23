/** The client of the HTTP API: the generated client, and streams that resume. No dependencies. */
import { createClient, createConfig } from "../../generated/http/client/client/index.ts";
import { AgentClient } from "../../generated/http/client/sdk.gen.ts";
import type { ClientOptions } from "./request.ts";

export type * from "../../generated/http/client/types.gen.ts";
export {
  AgentApiError,
  StreamCutError,
  type StreamRequest,
  type ClientOptions,
  type ResumeOptions,
} from "./request.ts";
export { streamChatCompletion } from "./chat-stream.ts";
export { followResponse, streamResponse, streamRunEvents } from "./streams.ts";
export { AgentClient };

/**
 * Creates the generated client for one server: one method per operation, with results as `{ data, error, response }`.
 */
export function createAgentClient(options: ClientOptions): AgentClient {
  const auth = options.apiKey === undefined ? {} : { auth: () => options.apiKey };
  const fetcher = options.fetch === undefined ? {} : { fetch: options.fetch };
  return new AgentClient({
    client: createClient(createConfig({ baseUrl: options.baseUrl, ...auth, ...fetcher })),
  });
}
