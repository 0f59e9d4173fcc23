import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { toServiceError } from "../base/errors.ts";

/** Errors of the agent as the protocol numbers them. */
export function toRequestError(thrown: unknown, sessionId?: string): RequestError {
  if (thrown instanceof RequestError) return thrown;
  const error = toServiceError(thrown);
  switch (error.code) {
    case "session_not_found":
      return new RequestError(SESSION_NOT_FOUND, `Session not found: ${sessionId ?? ""}`, { sessionId });
    case "model_not_found":
    case "invalid_request":
      return new RequestError(INVALID_PARAMS, error.message, { param: error.param });
    default:
      return new RequestError(INTERNAL, error.message, { kind: "internal", reason: error.code });
  }
}

export const SESSION_NOT_FOUND = -32_002;
const INVALID_PARAMS = -32_602;
const INTERNAL = -32_603;

/** ServiceErrors come out as the protocol's. */
export async function answering<T>(sessionId: string | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toRequestError(error, sessionId);
  }
}
