import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { toServiceError } from "../base/errors.ts";

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
    default:
      return new RequestError(INTERNAL, error.message, { kind: "internal", reason: error.code });
  }
}
