/** The calls of one connection: validated, limited in number, each answered once, alone or in its batch. */
import { shorten } from "../../base/text.ts";
import { ServiceError, toServiceError, type ErrorRow } from "../../base/errors.ts";
import type { Log } from "../../base/observe.ts";
import type { RpcHandlers, RpcContext, RpcCall, RpcIdentity } from "../deps.ts";
import type { Outbox } from "./outbox.ts";
import { gatewayRequests, type GatewayMethod } from "../../../generated/gateway/rpc.gen.ts";
import type { RequestMeta } from "../../../generated/gateway/contract.gen.ts";
import { isRecord } from "../../base/data.ts";
import { formatIssue, SchemaSet } from "../../base/schema.ts";
import { schemas } from "../../../generated/gateway/schemas.gen.ts";

export interface CallsOptions {
  readonly handlers: RpcHandlers<RpcContext>;
  readonly context: RpcContext;
  readonly outbox: Pick<Outbox, "control" | "hold" | "release">;
  readonly log: Log;
  /** Receives the host's answer to a question, which arrives among its calls. */
  readonly onAnswer: (answer: Extract<Inbound, { readonly kind: "answer" }>) => void;
}

type Request = Extract<Inbound, { readonly kind: "request" | "notification" }>;

export class Calls {
  readonly #options: CallsOptions;
  #inFlight = 0;
  #settled: PromiseWithResolvers<void> | undefined;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Handles one frame of `sizeBytes`. */
  take(value: unknown, sizeBytes: number): void {
    if (Array.isArray(value)) return this.#batch(value, sizeBytes);
    const call = this.#start(value, sizeBytes);
    if (call instanceof Call) this.#finish(call);
    else if (call) void this.#finishLater(call);
  }

  /** Answers a frame that is not a call with a protocol error. */
  refuse(code: number, reason: string, message: string): void {
    this.#send(protocolError(null, { code, reason, message }));
  }

  /** Resolves when no call is in flight. */
  settled(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve();
    this.#settled ??= Promise.withResolvers<void>();
    return this.#settled.promise;
  }

  #batch(members: readonly unknown[], sizeBytes: number): void {
    const { max_batch: max } = this.#options.context.deps.settings.limits;
    const problem =
      members.length === 0
        ? "A batch must not be empty."
        : members.length > max
          ? `A batch has at most ${max} members; this one has ${members.length}.`
          : undefined;
    if (problem !== undefined) return this.refuse(INVALID_REQUEST, "invalid_request", problem);
    void Promise.all(members.map((member) => this.#start(member, sizeBytes))).then((calls) => {
      const replies = calls.flatMap((call) => (call?.reply ? [call.reply] : []));
      if (replies.length > 0) this.#send(replies);
      for (const call of calls) if (call) this.#complete(call);
    });
  }

  /** Returns undefined when there is nothing to answer, and no promise for a call that is answered at once. */
  #start(member: unknown, sizeBytes: number): Call | Promise<Call> | undefined {
    const inbound = readInbound(member);
    if (inbound.kind === "answer") {
      this.#options.onAnswer(inbound);
      return undefined;
    }
    const call = new Call(this.#options.outbox);
    if (inbound.kind !== "invalid") return this.#run(call, inbound, sizeBytes);
    const { id, message } = inbound;
    call.reply = protocolError(id, { code: INVALID_REQUEST, reason: "invalid_request", message });
    return call;
  }

  #run(call: Call, request: Request, sizeBytes: number): Call | Promise<Call> {
    const { handlers, context, log } = this.#options;
    const { identity, signal } = context.peer;
    const answered = (value: unknown): Call => {
      if (request.kind === "request") call.reply = resultFrame(request.id, value);
      return call;
    };
    const failed = (thrown: unknown): Call => {
      const error = this.#failure(request.method, thrown);
      if (request.kind === "request") call.reply = errorFrame(request.id, error);
      return call;
    };
    try {
      if (this.#inFlight >= context.deps.settings.limits.max_inflight_requests) {
        throw overloaded(this.#inFlight);
      }
      context.deps.keyLimits?.countRequest(identity.key ?? identity.owner);
      const checked = checkCall(request.method, request.params, { identity, log, sizeBytes });
      const result = runHandler(handlers, checked, { ctx: context, signal, hold: call.hold });
      if (!(result instanceof Promise)) return answered(result);
      this.#inFlight += 1;
      call.isInFlight = true;
      return result.then(answered, failed);
    } catch (thrown) {
      return failed(thrown);
    }
  }

  async #finishLater(call: Promise<Call>): Promise<void> {
    this.#finish(await call);
  }

  #finish(call: Call): void {
    if (call.reply) this.#send(call.reply);
    this.#complete(call);
  }

  /** Releases the events that the call held back, and its place among the calls in flight. */
  #complete(call: Call): void {
    call.release();
    if (!call.isInFlight) return;
    this.#inFlight -= 1;
    if (this.#inFlight > 0) return;
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  #failure(method: string, thrown: unknown): ServiceError {
    const { context, log } = this.#options;
    const error = toServiceError(thrown);
    if (error.row.http >= 500 && !error.row.retryable && !context.peer.signal.aborted) {
      log.error("a call failed", { method, error: error.cause ?? error });
    }
    return error;
  }

  #send(reply: Reply | readonly Reply[]): void {
    this.#options.outbox.control(JSON.stringify(reply));
  }
}

type Reply = ResultFrame | ErrorFrame;

/** One call in flight. */
class Call {
  readonly #outbox: CallsOptions["outbox"];
  #held: string[] | undefined;
  reply: Reply | undefined;
  isInFlight = false;

  constructor(outbox: CallsOptions["outbox"]) {
    this.#outbox = outbox;
  }

  /** See {@link RpcCall.hold}. */
  readonly hold = (sessionId: string): void => {
    (this.#held ??= []).push(sessionId);
    this.#outbox.hold(sessionId);
  };

  release(): void {
    this.#held?.forEach((sessionId) => this.#outbox.release(sessionId));
  }
}

function overloaded(inFlight: number): ServiceError {
  return new ServiceError("overloaded", `${inFlight} requests are in flight. Wait for their answers.`);
}

/** A call with valid parameters. */
export interface CheckedCall {
  readonly method: GatewayMethod;
  readonly params: Readonly<Record<string, unknown>>;
}

/**
 * Checks a call against the spec. ServiceError `unknown_method`, `insufficient_scope`, or `invalid_params` with
 * `details.issues`. Undeclared parameters are dropped and logged.
 */
export function checkCall(
  method: string,
  params: unknown,
  from: { readonly identity: RpcIdentity; readonly log: Log; readonly sizeBytes: number },
): CheckedCall {
  if (!isMethod(method)) throw unknownMethod(method);
  const meta = gatewayRequests[method];
  if (meta.scope !== undefined) requireScope(from.identity, meta.scope, method);
  const given = params ?? {};
  if (!isRecord(given)) {
    throw invalidParams([
      { path: "", message: "must be an object: parameters are passed by name", keyword: "type" },
    ]);
  }
  const issues = rpcSchemas.check(meta.params, given, from.sizeBytes);
  if (issues) throw invalidParams(issues);
  return { method, params: pick(given, meta, { method, log: from.log }) };
}

/** Runs the handler. Its errors pass through. */
export function runHandler(
  handlers: RpcHandlers<RpcContext>,
  { method, params }: CheckedCall,
  more: Omit<RpcCall<GatewayMethod, RpcContext>, "params">,
): unknown {
  const handler = handlers[method] as (call: object) => unknown;
  return handler({ params, ...more });
}

function isMethod(name: string): name is GatewayMethod {
  return Object.hasOwn(gatewayRequests, name);
}

/** Returns the declared parameters with their defaults. */
function pick(
  given: Readonly<Record<string, unknown>>,
  { names, defaults }: RequestMeta,
  { method, log }: { readonly method: string; readonly log: Log },
): Readonly<Record<string, unknown>> {
  const unknown = Object.keys(given).filter((name) => !names.includes(name));
  if (unknown.length === 0) return { ...defaults, ...given };
  log.debug("undeclared parameters were ignored", { method, names: unknown.slice(0, MAX_NAMED) });
  const known = names.filter((name) => Object.hasOwn(given, name));
  return { ...defaults, ...Object.fromEntries(known.map((name) => [name, given[name]])) };
}

const MAX_NAMED = 16;
const MAX_METHOD = 64;

function invalidParams(issues: readonly { path: string; message: string; keyword: string }[]): ServiceError {
  const [first] = issues;
  const what = first ? formatIssue(first, "params") : "they do not match the schema";
  const plain = issues.map(({ path, message }) => ({ path, message }));
  return new ServiceError("invalid_params", `invalid params: ${what}.`, { details: { issues: plain } });
}

/** Hosts look for the words "unknown method" and then fall back to another one. */
function unknownMethod(method: string): ServiceError {
  return new ServiceError("unknown_method", `unknown method: ${shorten(method, MAX_METHOD)}`);
}

/** Validators for the schemas of both gateway documents. Each is compiled on first use. */
export const rpcSchemas = new SchemaSet(schemas);

/** JSON-RPC 2.0 frames: strict in what is sent, lenient in what is accepted. Pure. */

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
const INVALID_PARAMS = -32602;

/** Parses a member. `jsonrpc` may be missing, but must not name another version. */
function readInbound(value: unknown): Inbound {
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

function resultFrame(id: RpcId, result: unknown): ResultFrame {
  return { jsonrpc: "2.0", id, result };
}

/** Returns the frame of a protocol error. */
function protocolError(
  id: RpcId,
  { code, reason, message }: { readonly code: number; readonly reason: string; readonly message: string },
): ErrorFrame {
  return { jsonrpc: "2.0", id, error: { code, message, data: { reason, retryable: false } } };
}

/**
 * Returns the frame of an error: its number, `data.reason` and `data.retryable` from the table, and its own
 * details.
 */
function errorFrame(id: RpcId, error: ServiceError): ErrorFrame {
  const row: ErrorRow = error.row;
  const { param, retryAfterSeconds: seconds } = error;
  const about = {
    ...(param === undefined ? {} : { param }),
    ...(seconds === undefined ? {} : { retry_after_seconds: seconds }),
  };
  // Every error about parameters lists them, also one that a handler finds.
  const issues = row.rpc === INVALID_PARAMS ? [{ path: param ?? "", message: error.message }] : undefined;
  const data = {
    ...(issues ? { issues } : {}),
    ...error.details,
    ...about,
    reason: row.reason ?? error.code,
    retryable: row.retryable,
  };
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

/** Returns true when the identity has the scope. */
export function hasScope({ scopes }: RpcIdentity, scope: string): boolean {
  return scopes.includes(scope) || scopes.includes("admin");
}

/** Checks a scope. ServiceError `insufficient_scope`; `what` requires the scope. */
export function requireScope(identity: RpcIdentity, scope: string, what: string): void {
  if (hasScope(identity, scope)) return;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(identity.owner)} has no scope ${JSON.stringify(scope)}, which ${what} requires. Add it in api_server.keys.`,
  );
}
