import { send, type ClientOptions } from "./request.ts";
import type { ResumeOptions } from "./resume.ts";

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
