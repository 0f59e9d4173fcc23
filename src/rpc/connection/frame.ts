/** JSON-RPC 2.0 frames: strict in what is sent, lenient in what is accepted. Pure. */
import type { ErrorRow, ServiceError } from "../../base/errors.ts";
import { isRecord } from "../../base/json/schema.ts";

export type RpcId = string | number | null;

/** A parsed member of a frame. */
export type Inbound =
  | {
      readonly kind: "request";
      readonly id: RpcId;
      readonly method: string;
      readonly params: unknown;
    }
  | { readonly kind: "notification"; readonly method: string; readonly params: unknown }
  /** The host's answer to a question. */
  | {
      readonly kind: "answer";
      readonly id: RpcId;
      readonly result: unknown;
      readonly error: HostError | undefined;
    }
  | { readonly kind: "invalid"; readonly id: RpcId; readonly message: string };

export interface HostError {
  readonly code: number;
  readonly message: string;
}

export interface ErrorFrame {
  readonly jsonrpc: "2.0";
  readonly id: RpcId;
  readonly error: {
    readonly code: number;
    readonly message: string;
    readonly data: { readonly reason: string; readonly retryable: boolean } & Readonly<
      Record<string, unknown>
    >;
  };
}

export interface ResultFrame {
  readonly jsonrpc: "2.0";
  readonly id: RpcId;
  readonly result: unknown;
}

export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;

/** Parses a member. `jsonrpc` may be missing, but must not name another version. */
export function readInbound(value: unknown): Inbound {
  if (!isRecord(value)) return invalid(null, "A request must be a JSON object.");
  const id = readId(value["id"]);
  if (id === undefined && "id" in value) return invalid(null, "id must be a string, a number or null.");
  const version = value["jsonrpc"];
  if (version !== undefined && version !== "2.0") return invalid(id ?? null, 'jsonrpc must be "2.0".');
  const { method, params } = value as { readonly method?: unknown; readonly params?: unknown };
  if (method === undefined && id !== undefined && ("result" in value || "error" in value)) {
    return { kind: "answer", id, result: value["result"], error: readError(value["error"]) };
  }
  if (typeof method !== "string" || method === "") {
    return invalid(id ?? null, "method must be a non-empty string.");
  }
  return id === undefined
    ? { kind: "notification", method, params }
    : { kind: "request", id, method, params };
}

export function resultFrame(id: RpcId, result: unknown): ResultFrame {
  return { jsonrpc: "2.0", id, result };
}

/** Returns the frame of a protocol error. */
export function protocolError(
  id: RpcId,
  { code, reason, message }: { readonly code: number; readonly reason: string; readonly message: string },
): ErrorFrame {
  return { jsonrpc: "2.0", id, error: { code, message, data: { reason, retryable: false } } };
}

/**
 * Returns the frame of an error: its number, `data.reason` and `data.retryable` from the table, and its own
 * details.
 */
export function errorFrame(id: RpcId, error: ServiceError): ErrorFrame {
  const row: ErrorRow = error.row;
  const { param, retryAfterSeconds: seconds } = error;
  const about = {
    ...(param === undefined ? {} : { param }),
    ...(seconds === undefined ? {} : { retry_after_seconds: seconds }),
  };
  const data = { ...error.details, ...about, reason: row.reason ?? error.code, retryable: row.retryable };
  return { jsonrpc: "2.0", id, error: { code: row.rpc, message: messageOf(error), data } };
}

/** Hosts look for the words "session busy" and then retry. */
function messageOf({ code, message }: ServiceError): string {
  return code === "session_busy" ? `session busy: ${message}` : message;
}

function readId(id: unknown): RpcId | undefined {
  return typeof id === "string" || typeof id === "number" || id === null ? id : undefined;
}

function readError(error: unknown): HostError | undefined {
  if (error === undefined) return undefined;
  const { code, message } = isRecord(error) ? error : {};
  return {
    code: typeof code === "number" ? code : 0,
    message: typeof message === "string" ? message : "",
  };
}

function invalid(id: RpcId, message: string): Inbound {
  return { kind: "invalid", id, message };
}
