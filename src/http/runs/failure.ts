import type { ErrorEnvelope, RunEvent } from "../../../generated/http/client/types.gen.ts";
import { errorTable, ServiceError, type ErrorCode } from "../../base/errors.ts";
import { errorEnvelope, retryHeaders, type Headers } from "../edge/answer.ts";

/** The error that a run's end is for whoever waits for its answer; undefined for other events. */
export function failureOf(event: RunEvent): ServiceError | undefined {
  if (event.event === "run.failed") {
    const { code, message } = event.error;
    const known: ErrorCode = Object.hasOwn(errorTable, code) ? (code as ErrorCode) : "internal_error";
    // The model's name was accepted; that its provider does not have it is the provider's answer, not a bad request.
    const { retry_after_seconds: retryAfterSeconds } = event;
    const options = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
    return new ServiceError(known === "model_not_found" ? "provider_error" : known, message, options);
  }
  if (event.event === "run.cancelled") {
    return new ServiceError("agent_incomplete", "The run was stopped before it finished.");
  }
  return event.event === "run.interrupted"
    ? new ServiceError("agent_incomplete", event.error.message)
    : undefined;
}

/**
 * The answer to a request whose run failed. Once a tool ran, clients are told not to repeat the request: its effects
 * would be repeated as well.
 */
export function failedAnswer(
  failure: ServiceError,
  { headers, toolRan }: { readonly headers: Headers; readonly toolRan: boolean },
): {
  readonly status: 500 | 502 | 504;
  readonly headers: Headers;
  readonly body: ErrorEnvelope;
} {
  return {
    status: failure.row.http as 500 | 502 | 504,
    headers: {
      ...headers,
      ...retryHeaders(failure),
      ...(toolRan ? { "x-should-retry": "false" } : {}),
    },
    body: errorEnvelope(failure),
  };
}

/** What ends an answer that waits for a run when the server goes down first. */
export function shuttingDown(): ServiceError {
  return new ServiceError("server_draining", "The server is shutting down.", { retryAfterSeconds: 1 });
}
