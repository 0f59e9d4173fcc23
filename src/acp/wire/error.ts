import { RequestError } from "@agentclientprotocol/sdk/unstable";
import type { ProviderFailure } from "../../../generated/http/client/types.gen.ts";
import { toServiceError } from "../../base/errors.ts";

const AUTH_REQUIRED = -32_000;
const SESSION_NOT_FOUND = -32_002;
const INVALID_PARAMS = -32_602;
const INTERNAL = -32_603;

/** Clients look for this text. */
export function sessionNotFound(sessionId: string): RequestError {
  return new RequestError(SESSION_NOT_FOUND, `Session not found: ${sessionId}`, { sessionId });
}

/** Names the parameter and what would be right. */
export function invalidParams(param: string, message: string): RequestError {
  return new RequestError(INVALID_PARAMS, message, { param });
}

/** Errors of the agent as the protocol numbers them. */
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

/** How a run failed, as its final event says. */
interface RunFailure {
  readonly code: string;
  readonly message: string;
  readonly failure: ProviderFailure | undefined;
  readonly retryAfterSeconds: number | undefined;
}

/** Clients show it in a corner of the screen. */
const MAX_MESSAGE_CHARACTERS = 400;

/** A refused key is a matter of signing in, all else of the provider or of ours. */
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
