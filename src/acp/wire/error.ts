import { RequestError } from "@agentclientprotocol/sdk/unstable";
import type { ProviderFailure } from "../../../generated/http/client/types.gen.ts";
import { toServiceError } from "../../base/errors.ts";

const AUTH_REQUIRED = -32_000;
const SESSION_NOT_FOUND = -32_002;
const INVALID_PARAMS = -32_602;
const INTERNAL = -32_603;

/** Returns the error for an unknown session. Clients match its text. */
export function sessionNotFound(sessionId: string): RequestError {
  return new RequestError(SESSION_NOT_FOUND, `Session not found: ${sessionId}`, { sessionId });
}

/** Returns the error for an invalid parameter. The message names the parameter and the expected value. */
export function invalidParams(param: string, message: string): RequestError {
  return new RequestError(INVALID_PARAMS, message, { param });
}

/** Converts an error of the agent into an error of the protocol. */
export function toRequestError(thrown: unknown, sessionId?: string): RequestError {
  if (thrown instanceof RequestError) return thrown;
  const error = toServiceError(thrown);
  switch (error.code) {
    case "session_not_found":
      return sessionNotFound(sessionId ?? "");
    case "model_not_found":
    case "invalid_request":
      return invalidParams(error.param ?? "", error.message);
    default: {
      const { code, message, row, retryAfterSeconds: retryAfter } = error;
      const data = { kind: "internal", reason: code, retryable: row.retryable };
      return new RequestError(INTERNAL, message, {
        ...data,
        ...(retryAfter === undefined ? {} : { retryAfter }),
      });
    }
  }
}

/** A failed run, from its final event. */
interface RunFailure {
  readonly code: string;
  readonly message: string;
  readonly failure: ProviderFailure | undefined;
  readonly retryAfterSeconds: number | undefined;
}

/** Clients show the message in a corner of the screen. */
const MAX_MESSAGE_CHARACTERS = 400;

/** Returns the error of a failed run: "authentication required" for a rejected key, otherwise an internal error. */
export function runFailed(
  { code, message, failure, retryAfterSeconds: retryAfter }: RunFailure,
  authMethods: readonly unknown[],
): RequestError {
  const { kind = "internal", status, retryable = false } = failure ?? {};
  const text = message.slice(0, MAX_MESSAGE_CHARACTERS);
  const data = {
    kind: kind === "authentication" ? "provider" : kind,
    reason: code,
    ...(status === undefined ? {} : { status }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
    retryable,
  };
  if (kind === "authentication") return new RequestError(AUTH_REQUIRED, text, { ...data, authMethods });
  return new RequestError(INTERNAL, text, data);
}
