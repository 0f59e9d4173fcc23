/** Calls of operations inside the process: the same checks, handlers and answers as over HTTP, without a connection. */
import type { FeedFrame } from "../../generated/http/client/types.gen.ts";
import type { OperationMeta, SseMessage } from "../../generated/http/contract.gen.ts";
import { operations, type OperationId } from "../../generated/http/server.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/text.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import { actAs, identityOf, type KeyHolder, markLocal } from "./edge/access.ts";
import { absentBody, checkBody, checkSpecOnce, readParameters, type JsonBody } from "./edge/input.ts";
import type { Handler, Result } from "./edge/serve.ts";

/** An operation of the API with what a request would carry. */
export interface OperationCall {
  /** The `operationId` of specs/http.openapi.yaml. */
  readonly operation: string;
  readonly path?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, unknown>>;
  /** The JSON body. */
  readonly body?: unknown;
}

/** An answer, whatever its status. */
export interface OperationAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The JSON value, the text of a body that is not JSON, or null without a body. */
  readonly body: unknown;
}

/** The API for callers inside the process, who need no key. */
export interface LocalApi {
  /**
   * Calls an operation as `caller`. Resolves to the answer, also when it is an error of the operation. ServiceError
   * `invalid_request` for an operation that does not exist, that streams, or whose parameters cannot be put into a
   * request; `body_too_large` for an answer above 8 MiB.
   */
  call(
    call: OperationCall,
    caller: KeyHolder,
    options?: { readonly signal?: AbortSignal },
  ): Promise<OperationAnswer>;
  /**
   * Performs an operation as `caller`, with its checks and without a request, which saves a short-lived process the
   * modules for one. Rejects with the ServiceError of the operation.
   */
  perform(call: OperationCall, caller: KeyHolder): Promise<Performed>;
  /** Answers a request as `caller`. Streams and bytes too. */
  fetch(request: Request, caller: KeyHolder): Promise<Response>;
  /** Follows the feed of changes as `caller` until `signal` aborts. ServiceError as GET /v1/events answers. */
  follow(wanted: FeedFilter, caller: KeyHolder, signal: AbortSignal): Promise<AsyncIterable<FeedFrame>>;
}

export interface FeedFilter {
  readonly types?: readonly string[];
  readonly after?: string;
}

/** The result of an operation: text or bytes in `raw`, otherwise a value or a stream of events. */
export type Performed = Result;

/** Returns the function that performs operations with their handlers. */
export function createPerform(
  handlers: Readonly<Record<OperationId, unknown>>,
  deps: HttpDeps,
  shared: unknown,
): LocalApi["perform"] {
  return async ({ operation: name, path = {}, query = {}, headers = {}, body }, caller) => {
    if (!isOperation(name))
      throw refusal(`The operation ${JSON.stringify(name)} does not exist.`, "operation");
    const operation: OperationMeta = operations[name];
    const sent = new Map(
      Object.entries(headers).map(
        ([key, value]) => [headerName(key, operation), textOf(value, key)] as const,
      ),
    );
    const reader = { get: (key: string) => sent.get(key) ?? (key === "accept" ? "application/json" : null) };
    const holder = { ...identityOf(caller, operation), authenticated: deps.keys.required };
    const identity = actAs(holder, reader.get("x-agent-owner"), operation);
    const pathText = (key: string) =>
      path[key] === undefined ? undefined : textOf(path[key], `path.${key}`);
    const input = readParameters(
      { path: pathText, query: queryOf(query), headers: reader, check: checkSpecOnce },
      operation,
    );
    if (operation.body && !operation.body.raw) input.body = bodyOf(operation.body, body);
    const ctx: HttpContext = { identity, requestId: createId("req") };
    const { signal } = new AbortController();
    const raw = { signal, headers: reader, url: "http://localhost/" };
    return (handlers[name] as Handler)({ ...input, ctx, raw, signal }, deps, shared);
  };
}

function bodyOf(meta: JsonBody, body: unknown): unknown {
  if (body === undefined) return absentBody(meta);
  // As it would arrive: without what JSON leaves out.
  const sent: unknown = JSON.parse(JSON.stringify(body));
  checkBody(meta, sent, { check: checkSpecOnce });
  return sent;
}

function queryOf(query: Readonly<Record<string, unknown>>): URLSearchParams {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(given.map(([key, value]) => [key, textOf(value, `query.${key}`)]));
}

/** Limit of an answer: the same again has to fit into the outbox of a gateway connection. */
const MAX_ANSWER_BYTES = 8_388_608;

/** Returns the functions that make calls through `answer`, the API's own. */
export function createLocalCalls(
  answer: (request: Request) => Response | Promise<Response>,
): Pick<LocalApi, "call" | "fetch"> {
  const fetch: LocalApi["fetch"] = async (request, caller) => {
    markLocal(request, caller);
    return answer(request);
  };
  return {
    fetch,
    call: async (call, caller, { signal } = {}) =>
      readAnswer(await fetch(toRequest(call, signal), caller), call.operation),
  };
}

/** Returns the frames of a stream without their form on the wire. */
export async function* framesOf<T>(stream: AsyncIterable<SseMessage<T>>): AsyncGenerator<T> {
  for await (const { data } of stream) yield data;
}

function toRequest(call: OperationCall, signal: AbortSignal | undefined): Request {
  const { operation: name, path = {}, query = {}, headers = {}, body } = call;
  if (!isOperation(name))
    throw refusal(`The operation ${JSON.stringify(name.slice(0, 64))} does not exist.`, "operation");
  const operation: OperationMeta = operations[name];
  refuseStream(name, operation, { query, body });
  const url = new URL(`http://localhost${pathOf(operation, path)}`);
  url.search = queryOf(query).toString();
  const sent = new Headers({ accept: "application/json" });
  for (const [key, value] of Object.entries(headers))
    sent.set(headerName(key, operation), textOf(value, `headers.${key}`));
  const hasBody = body !== undefined;
  if (hasBody) sent.set("content-type", "application/json");
  return new Request(url, {
    method: operation.method,
    headers: sent,
    ...(hasBody && operation.method !== "GET" ? { body: JSON.stringify(body) } : {}),
    ...(signal ? { signal } : {}),
  });
}

function isOperation(name: string): name is OperationId {
  return Object.hasOwn(operations, name);
}

/** An operation that may stream is called for its JSON answer; one that only streams is not called. */
function refuseStream(
  name: string,
  { sse, responses }: OperationMeta,
  { query, body }: Pick<OperationCall, "query" | "body">,
): void {
  const streams =
    sse !== undefined &&
    (responses["200"]?.json === undefined || asksForStream(query) || asksForStream(body));
  if (streams) {
    throw refusal(
      `${name} streams, which this call cannot pass on. Use HTTP, or events.subscribe for the feed.`,
      "operation",
    );
  }
}

function asksForStream(given: unknown): boolean {
  if (typeof given !== "object" || given === null || !("stream" in given)) return false;
  return given.stream === true || given.stream === "true";
}

function pathOf({ route }: OperationMeta, values: Readonly<Record<string, unknown>>): string {
  return route.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw refusal(`path.${name} is missing.`, `path.${name}`);
    return encodeURIComponent(textOf(value, `path.${name}`));
  });
}

/** Headers that any operation takes. */
const COMMON = ["x-agent-owner", "x-request-id", "traceparent"];

function headerName(given: string, { headers }: OperationMeta): string {
  const name = given.toLowerCase();
  const known = [...Object.keys(headers?.coerce ?? {}), ...COMMON];
  if (known.includes(name)) return name;
  const param = `headers.${given.slice(0, 64)}`;
  throw refusal(`${param} is not a header of this operation. Its headers are: ${known.join(", ")}.`, param);
}

function textOf(value: unknown, param: string): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return value.map((each) => textOf(each, param)).join(",");
  throw refusal(`${param} must be text, a number, a boolean or a list of these.`, param);
}

function refusal(what: string, param: string): ServiceError {
  return new ServiceError("invalid_request", what, { param });
}

async function readAnswer(response: Response, operation: string): Promise<OperationAnswer> {
  const type = response.headers.get("content-type") ?? "";
  const { status } = response;
  const { "content-length": _, ...headers } = Object.fromEntries(response.headers);
  if (response.body === null) return { status, headers, body: null };
  if (!/^(?:application\/json|text\/(?!event-stream))/.test(type)) {
    await response.body.cancel();
    throw refusal(
      `${operation} answers with ${type || "bytes"}, which this call cannot pass on. Use HTTP.`,
      "operation",
    );
  }
  const text = await readText(response.body, operation);
  return { status, headers, body: type.startsWith("application/json") ? JSON.parse(text) : text };
}

async function readText(body: ReadableStream<Uint8Array>, operation: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > MAX_ANSWER_BYTES) {
      const what = `The answer of ${operation} has more than ${MAX_ANSWER_BYTES} bytes. Ask for less, or use HTTP.`;
      throw new ServiceError("body_too_large", what);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
