import type { ErrorEnvelope } from "../../generated/http/client/types.gen.ts";

/** The body of an error. Its code may be one that this client does not know: proxies and newer servers answer, too. */
export type ApiErrorBody = Omit<ErrorEnvelope["error"], "code"> & { readonly code: string };

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

  constructor(status: number, body: ApiErrorBody, headers?: Headers) {
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
