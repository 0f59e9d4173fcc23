import type { ErrorEnvelope } from "../../generated/http/client/types.gen.ts";
import { AgentApiError, type ApiErrorBody } from "./api-error.ts";

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
async function errorOf(response: Response): Promise<ApiErrorBody> {
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
