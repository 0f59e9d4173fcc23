import type { H3Event } from "h3";
import type { Coercion, OperationMeta, ParameterGroup } from "../../../generated/http/contract.gen.ts";
import { operations } from "../../../generated/http/server.gen.ts";
import { ServiceError, type ErrorCode } from "../../base/errors.ts";
import { isRecord } from "../../base/data.ts";
import { CONTENT_ENCODING } from "./answer.ts";
import { formatIssue, SchemaSet, type Issue } from "../../base/schema.ts";
import { readBody } from "../../base/net/request.ts";
import type { HttpDeps } from "../deps.ts";
import type { HeaderReader } from "./access.ts";
import { schemas } from "../../../generated/http/schemas.gen.ts";

/** The declared and validated parts of a request: path, query, headers and body. */
export interface Input {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  headers?: Record<string, unknown>;
  body?: unknown;
  /** The body of an operation that takes bytes. */
  rawBody?: Uint8Array;
}

/**
 * Reads and validates a request. ServiceError `invalid_request` or `invalid_json` with the field,
 * `unsupported_media_type`, and those of reading the body.
 */
export async function readInput(event: H3Event, operation: OperationMeta, deps: HttpDeps): Promise<Input> {
  const path = (name: string) => unescape(event.context.params?.[name]);
  const input = readParameters(
    { path, query: event.url.searchParams, headers: event.req.headers },
    operation,
  );
  if (operation.body?.raw) input.rawBody = await readBytes(event, deps);
  else if (operation.body) input.body = await jsonBody(event, operation.body, deps);
  return input;
}

/** The text of the parameters of a request. */
export interface ParameterSource {
  /** Default: compiles each schema. */
  readonly check?: SchemaSet["check"];
  readonly path: (name: string) => string | undefined;
  readonly query: URLSearchParams;
  readonly headers: HeaderReader;
}

/** Reads and validates all but the body. ServiceError as {@link readInput}. */
export function readParameters(source: ParameterSource, operation: OperationMeta): Input {
  const { path, query, headers, check = compiled } = source;
  const input: Input = {};
  if (operation.path) input.path = parameters(operation.path, path, { check });
  if (operation.query) {
    const { coerce: known } = operation.query;
    if (operation.strict) refuseUnknown([...query.keys()], Object.keys(known));
    const read = (name: string) => (known[name]?.endsWith("[]") ? joined : single)(query.getAll(name), name);
    const reject = operation.strict ? refuseStrictly : refuse;
    input.query = parameters(operation.query, read, { check, reject });
  } else if (operation.strict) refuseUnknown([...query.keys()], []);
  if (operation.headers) input.headers = headerParameters(operation.headers, headers, check);
  return input;
}

function parameters(
  group: ParameterGroup,
  read: (name: string) => string | undefined,
  {
    check,
    reject = refuse,
  }: { readonly check: SchemaSet["check"]; readonly reject?: (issues: readonly Issue[]) => never },
): Record<string, unknown> {
  const values: Record<string, unknown> = { ...group.defaults };
  let isGiven = false;
  for (const [name, coercion] of Object.entries(group.coerce)) {
    const text = read(name);
    if (text === undefined) continue;
    values[name] = coerce(coercion, text);
    isGiven = true;
  }
  // Most requests have no optional parameters; compiling the first check takes milliseconds.
  const issues = isGiven || requires(group) ? check(group.schema, values) : undefined;
  if (issues) reject(issues);
  return values;
}

function requires({ schema, defaults }: ParameterGroup): boolean {
  const { required = [] } = schema as { readonly required?: readonly string[] };
  return required.some((name) => !Object.hasOwn(defaults, name));
}

/** Returns the value of a query parameter. ServiceError `invalid_request` for one that is repeated. */
function single(values: readonly string[], name: string): string | undefined {
  if (values.length <= 1) return values[0];
  throw new ServiceError("invalid_request", `${name} is given ${values.length} times. Send it once.`, {
    param: name,
  });
}

/** Returns the values of a list parameter, which may be repeated instead of separated by commas. */
function joined(values: readonly string[]): string | undefined {
  return values.length === 0 ? undefined : values.join(",");
}

/** A filter that is silently ignored would make an answer wrong. ServiceError `unsupported_parameter`. */
function refuseUnknown(given: readonly string[], known: readonly string[]): void {
  const unknown = given.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const name = JSON.stringify(unknown.slice(0, 64));
  const what =
    known.length === 0 ? "This operation has none." : `The parameters are: ${known.toSorted().join(", ")}.`;
  throw new ServiceError("unsupported_parameter", `The query parameter ${name} does not exist. ${what}`, {
    param: unknown.slice(0, 64),
  });
}

/** Refuses an unknown value of a query parameter with `unsupported_parameter`. */
function refuseStrictly(issues: readonly Issue[]): never {
  const [first = UNEXPLAINED] = issues;
  if (first.keyword !== "enum") refuse(issues);
  const param = first.path.replace(/\[\d+\]$/, "");
  throw new ServiceError("unsupported_parameter", `${formatIssue(first, "The request")}.`, { param });
}

function headerParameters(
  group: ParameterGroup,
  headers: HeaderReader,
  check: SchemaSet["check"],
): Record<string, unknown> {
  return parameters(
    group,
    // An empty model is the default, as in clients whose setting is empty.
    (name) => (name === "x-agent-model" ? headers.get(name) || undefined : (headers.get(name) ?? undefined)),
    {
      check,
      reject: (issues) => {
        for (const { path, keyword, message } of issues) {
          const known = HEADER_ERRORS[path];
          if (!known) continue;
          const what = `${known.name} ${keyword === "pattern" ? known.pattern : message}.`;
          throw new ServiceError(known.code, what, { param: known.name });
        }
        return refuse(issues);
      },
    },
  );
}

/** Headers whose limits are in the spec and that have their own error code. */
const HEADER_ERRORS: Readonly<
  Record<string, { readonly name: string; readonly code: ErrorCode; readonly pattern: string } | undefined>
> = {
  "x-agent-session-id": {
    name: "X-Agent-Session-Id",
    code: "invalid_session_id",
    pattern: "must be Latin-1 text without control characters, `/`, `\\` or `..`",
  },
  "x-agent-session-key": {
    name: "X-Agent-Session-Key",
    code: "invalid_session_key",
    pattern: "must be Latin-1 text without control characters",
  },
  "idempotency-key": {
    name: "Idempotency-Key",
    code: "invalid_idempotency_key",
    pattern: "must be visible ASCII characters",
  },
};

interface HeaderSchema {
  readonly properties: Readonly<Record<string, { readonly maxLength?: number }>>;
}

/** Returns the greatest length that the spec allows for a header of `createRun`. */
export function maxHeaderLength(name: "idempotency-key" | "x-agent-session-id"): number {
  const schema = operations.createRun.headers?.schema as HeaderSchema | undefined;
  return schema?.properties[name]?.maxLength ?? 0;
}

/** Decodes a path segment. The router passes segments as they are in the path, which is well-formed here. */
function unescape(segment: string | undefined): string | undefined {
  return segment?.includes("%") ? decodeURIComponent(segment) : segment;
}

/**
 * Converts the text of a parameter. Text that does not convert stays text, and the schema reports what it expects.
 */
function coerce(coercion: Coercion, text: string): unknown {
  if (coercion.endsWith("[]")) {
    return text.split(",").map((item) => coerce(coercion.slice(0, -2) as Coercion, item));
  }
  if (coercion === "boolean") return text === "true" ? true : text === "false" ? false : text;
  if (coercion === "string") return text;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** Names in the error messages. */
export const BODY_SETTINGS = { maxBytes: "limits.max_body_bytes", timeoutMs: "limits.body_timeout_seconds" };

/** The metadata of a JSON body. */
export type JsonBody = Extract<NonNullable<OperationMeta["body"]>, { schema: object }>;

async function jsonBody(event: H3Event, body: JsonBody, deps: HttpDeps): Promise<unknown> {
  checkMediaType(event.req.headers);
  const bytes = await readBytes(event, deps);
  if (bytes.length === 0) return absentBody(body);
  const value = parse(bytes);
  checkBody(body, value, { sizeBytes: bytes.length });
  return value;
}

/** Returns what an absent body stands for. ServiceError `invalid_json` for an operation that requires one. */
export function absentBody({ required }: JsonBody): object {
  if (!required) return {};
  throw new ServiceError("invalid_json", "The body is empty. Send a JSON object.");
}

function readBytes(event: H3Event, { settings, clock }: HttpDeps): Promise<Uint8Array> {
  const { maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = settings;
  return readBody(event, { maxBytes, timeoutMs, clock, settings: BODY_SETTINGS });
}

/** ServiceError `invalid_request` for a value that does not fit the schema of the body. */
export function checkBody(
  { schema }: JsonBody,
  value: unknown,
  {
    sizeBytes = 0,
    check = compiled,
  }: { readonly sizeBytes?: number; readonly check?: SchemaSet["check"] } = {},
): void {
  const issues = check(schema, value, sizeBytes);
  if (!issues) return;
  refuseHostedTool(issues, value);
  refuse(issues);
}

/** Accepts a missing content type as JSON: curl users forget it, and the parser decides anyway. */
function checkMediaType(headers: Headers): void {
  const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "" && type !== "application/json" && !type.endsWith("+json")) {
    throw new ServiceError(
      "unsupported_media_type",
      `The content type ${JSON.stringify(type)} is not supported. Send the body as application/json.`,
    );
  }
  const coding = headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (coding === "" || coding === "identity") return;
  throw new ServiceError(
    "unsupported_media_type",
    `The content encoding ${JSON.stringify(coding.slice(0, 64))} is not supported. Send the body without compression.`,
    { param: CONTENT_ENCODING },
  );
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

function parse(bytes: Uint8Array): unknown {
  try {
    return parseJson(decoder.decode(bytes));
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw new ServiceError("invalid_json", `The body is not valid JSON${positionOf(cause)}.`, { cause });
  }
}

/**
 * Returns the position at which the parser stopped. The rest of its message quotes the body, which may hold
 * secrets.
 */
function positionOf(error: unknown): string {
  if (!(error instanceof SyntaxError)) return ": it is not UTF-8";
  const position = error.message.match(/position \d+(?: \(line \d+ column \d+\))?/)?.[0];
  return position === undefined ? "" : ` at ${position}`;
}

function refuse(issues: readonly Issue[]): never {
  const [first = UNEXPLAINED] = issues;
  const code = first.keyword === "required" ? "missing_required_parameter" : "invalid_request";
  throw new ServiceError(code, `${formatIssue(first, "The request")}.`, {
    ...(first.path === "" ? {} : { param: first.path }),
    ...(issues.length > 1 ? { details: { issues: issues.slice(0, 8) } } : {}),
  });
}

/**
 * Explains a tool that the provider's own service would run, such as `web_search`. The schema would only miss its name.
 * ServiceError `unsupported_parameter`.
 */
function refuseHostedTool([first = UNEXPLAINED]: readonly Issue[], body: unknown): void {
  const index = /^tools\[(\d+)\]/.exec(first.path)?.[1];
  if (index === undefined || !isRecord(body) || !Array.isArray(body["tools"])) return;
  const tool: unknown = body["tools"][Number(index)];
  const type = isRecord(tool) ? tool["type"] : undefined;
  if (typeof type !== "string" || type === "function") return;
  const what = `tools[${index}] has the type ${JSON.stringify(type.slice(0, 64))}. Only functions of the client are supported; the agent has tools of its own.`;
  throw new ServiceError("unsupported_parameter", what, { param: `tools[${index}].type` });
}

const UNEXPLAINED: Issue = { path: "", message: "does not match the schema", keyword: "schema" };

/** Greatest depth of arrays and objects in a request. Code that stores and checks values recurses once per level. */
const MAX_DEPTH = 256;

/** Parses JSON. SyntaxError; ServiceError `invalid_request` for more than {@link MAX_DEPTH} levels. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (depthOf(text) <= MAX_DEPTH) return value;
  throw new ServiceError("invalid_request", `The JSON is nested more than ${MAX_DEPTH} levels deep.`);
}

/** Counts the nesting levels of valid JSON text. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i);
    else if (code === BRACE || code === BRACKET) deepest = Math.max(deepest, ++depth);
    else if (code === BRACE + 2 || code === BRACKET + 2) depth--;
  }
  return deepest;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACE = 0x7b;
const BRACKET = 0x5b;

/** Returns the index of the quote that ends the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
}

/** Throws when an answer differs from the spec. Only tests switch this check on. */
export function checkAnswer(
  id: string,
  operation: OperationMeta,
  result: {
    readonly status: number;
    readonly headers?: object;
    readonly body?: unknown;
    readonly stream?: object;
    readonly raw?: unknown;
    readonly contentType?: string;
  },
): void {
  const declared = operation.responses[String(result.status)];
  if (!declared) throw new Error(`${id} answered ${result.status}, which the spec does not list`);
  for (const [name, value] of Object.entries(result.headers ?? {})) {
    if (value !== undefined && !declared.headers.includes(name))
      throw new Error(`${id} ${result.status} sent the undeclared header ${name}`);
  }
  if (result.stream) {
    if (!declared.sse) throw new Error(`${id} ${result.status} streams, which the spec does not list`);
    return;
  }
  if (result.raw !== undefined) {
    if (declared.raw !== result.contentType) {
      throw new Error(`${id} ${result.status} is ${result.contentType}, which the spec does not list`);
    }
    return;
  }
  const isEmpty = !declared.json && !declared.sse && declared.raw === undefined;
  if (isEmpty && result.body === undefined) return;
  if (!declared.json) throw new Error(`${id} ${result.status} has a body, which the spec does not list`);
  throwIssues(`the body of ${id} ${result.status}`, specSchemas.check(declared.json, plain(result.body)));
}

/** Throws when the data of an event differs from the spec. */
export function checkEvent(id: string, operation: OperationMeta, data: unknown): void {
  const schema = operation.responses["200"]?.sse;
  if (!schema) throw new Error(`${id} streams, which the spec does not list`);
  throwIssues(`an event of ${id}`, specSchemas.check(schema, plain(data)));
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null));

function throwIssues(what: string, issues: ReturnType<typeof specSchemas.check>): void {
  if (!issues) return;
  throw new Error(
    `${what} does not fit the spec: ${issues.map((issue) => `${issue.path} ${issue.message}`).join("; ")}`,
  );
}

/** Validators for the schemas of the HTTP spec. Each is compiled on first use. */
export const specSchemas = new SchemaSet(schemas);

const compiled: SchemaSet["check"] = (...given) => specSchemas.check(...given);
/** Checks a value once, in a process that ends soon. */
export const checkSpecOnce: SchemaSet["check"] = (schema, value) => specSchemas.checkOnce(schema, value);
