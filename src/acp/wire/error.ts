import { RequestError, type AnyMessage } from "@agentclientprotocol/sdk/unstable";
import type { ProviderFailure } from "../../../generated/http/client/types.gen.ts";
import { toServiceError } from "../../base/errors.ts";
import { shorten } from "../../base/text.ts";
import { isRecord } from "../../base/data.ts";

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
  readonly message: string;
  readonly failure: ProviderFailure | undefined;
  readonly retryAfterSeconds: number | undefined;
}

/** Clients show the message in a corner of the screen. */
const MAX_MESSAGE_CHARACTERS = 400;

/**
 * Returns the error of a failed run: "authentication required" for a rejected key, otherwise an internal error. Its data is
 * short, because clients show it beside the message.
 */
export function runFailed({ message, failure, retryAfterSeconds: retryAfter }: RunFailure): RequestError {
  const { kind = "internal", status, retryable = false } = failure ?? {};
  const text = shorten(message, MAX_MESSAGE_CHARACTERS);
  const data = {
    kind: kind === "authentication" ? "provider" : kind,
    ...(status === undefined ? {} : { status }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
    retryable,
  };
  return new RequestError(kind === "authentication" ? AUTH_REQUIRED : INTERNAL, text, data);
}

/** The validation errors of a value as the SDK reports them: its own, and those of its members by name. */
interface ErrorTree {
  readonly _errors?: readonly string[];
  readonly [name: string]: unknown;
}

const MCP_SERVER =
  "must have name, command, args and env, or be of type http or sse with name, url and headers";

/**
 * Returns an "invalid params" error of the SDK with a message that names the first invalid parameter and what is expected.
 * Returns every other message as it is.
 */
export function explainInvalidParams(message: AnyMessage): AnyMessage {
  const { error } = message as { readonly error?: { readonly code: number; readonly data?: unknown } };
  if (error?.code !== INVALID_PARAMS || !isRecord(error.data) || !("_errors" in error.data)) return message;
  const { path, problem } = firstProblem(error.data as ErrorTree);
  const param = path.reduce(
    (at, name) => (/^\d+$/.test(name) ? `${at}[${name}]` : at === "" ? name : `${at}.${name}`),
    "",
  );
  const isServer = path[0] === "mcpServers" && path.length > 1;
  const text = isServer
    ? `mcpServers[${path[1]}] ${MCP_SERVER}.`
    : `${param === "" ? "params" : param} ${describe(problem)}`;
  return { ...message, error: { code: INVALID_PARAMS, message: text, data: { param } } } as AnyMessage;
}

function firstProblem(
  tree: ErrorTree,
  path: readonly string[] = [],
): { readonly path: readonly string[]; readonly problem: string } {
  const [own] = tree._errors ?? [];
  const member = Object.keys(tree).find((name) => name !== "_errors");
  if (own !== undefined || member === undefined) return { path, problem: own ?? "" };
  return firstProblem(tree[member] as ErrorTree, [...path, member]);
}

/** Returns the end of a sentence for a message such as `Invalid input: expected string, received undefined`. */
function describe(problem: string): string {
  const [, expected = "", received] = /expected ([^,]+), received (\w+)/.exec(problem) ?? [];
  if (expected === "") return "is invalid.";
  const kind = /^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`;
  return received === "undefined" ? `is missing: it must be ${kind}.` : `must be ${kind}.`;
}
