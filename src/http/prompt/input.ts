import type { H3Event } from "h3";
import type { Coercion, OperationMeta, ParameterGroup } from "../../../generated/http/contract.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { formatIssue } from "../../base/json/validate.ts";
import { parseJson } from "../edge/json.ts";
import { readBody } from "../../base/net/read-body.ts";
import type { HttpDeps } from "../deps.ts";
import { specSchemas } from "../edge/schemas.ts";

/** The declared parts of a request, validated: path, query, headers and body, as far as the operation has them. */
export interface Input {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  headers?: Record<string, unknown>;
  body?: unknown;
}

/**
 * Reads and validates a request. ServiceError `invalid_request` or `invalid_json` naming the field, besides those of
 * reading the body and `unsupported_media_type`.
 */
export async function readInput(event: H3Event, operation: OperationMeta, deps: HttpDeps): Promise<Input> {
  const input: Input = {};
  if (operation.path)
    input.path = parameters(operation.path, (name) => unescape(event.context.params?.[name]));
  if (operation.query) {
    const query = event.url.searchParams;
    input.query = parameters(operation.query, (name) => query.get(name) ?? undefined);
  }
  if (operation.headers) {
    input.headers = parameters(operation.headers, (name) => event.req.headers.get(name) ?? undefined);
  }
  if (operation.body && !operation.body.raw) input.body = await jsonBody(event, operation.body, deps);
  return input;
}

function parameters(
  group: ParameterGroup,
  read: (name: string) => string | undefined,
): Record<string, unknown> {
  const values: Record<string, unknown> = { ...group.defaults };
  for (const [name, coercion] of Object.entries(group.coerce)) {
    const text = read(name);
    if (text !== undefined) values[name] = coerce(coercion, text);
  }
  refuse(specSchemas.check(group.schema, values));
  return values;
}

/** The router hands segments on as they stand in the path, which is well-formed by then. */
function unescape(segment: string | undefined): string | undefined {
  return segment?.includes("%") ? decodeURIComponent(segment) : segment;
}

/** Text that does not fit stays text: the schema then says what was expected. */
function coerce(coercion: Coercion, text: string): unknown {
  if (coercion.endsWith("[]")) {
    return text.split(",").map((item) => coerce(coercion.slice(0, -2) as Coercion, item));
  }
  if (coercion === "boolean") return text === "true" ? true : text === "false" ? false : text;
  if (coercion === "string") return text;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

type JsonBody = Extract<NonNullable<OperationMeta["body"]>, { schema: object }>;

const BODY_SETTINGS = { maxBytes: "limits.max_body_bytes", timeoutMs: "limits.body_timeout_seconds" };

async function jsonBody(event: H3Event, body: JsonBody, deps: HttpDeps): Promise<unknown> {
  checkMediaType(event.req.headers.get("content-type"));
  const { maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = deps.settings;
  const bytes = await readBody(event, { maxBytes, timeoutMs, clock: deps.clock, settings: BODY_SETTINGS });
  if (bytes.length === 0) {
    if (!body.required) return undefined;
    throw new ServiceError("invalid_json", "The body is empty; send a JSON object.");
  }
  const value = parse(bytes);
  refuse(specSchemas.check(body.schema, value, bytes.length));
  return value;
}

/** An absent or empty content type is taken for JSON: curl users forget it, and the parser decides anyway. */
function checkMediaType(header: string | null): void {
  const type = (header ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type === "" || type === "application/json" || type.endsWith("+json")) return;
  throw new ServiceError(
    "unsupported_media_type",
    `Send the body as application/json; ${JSON.stringify(type)} is not understood.`,
  );
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

function parse(bytes: Uint8Array): unknown {
  try {
    return parseJson(decoder.decode(bytes));
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw new ServiceError("invalid_json", `The body is not valid JSON${placeOf(cause)}.`, { cause });
  }
}

/** Where the parser stopped. The rest of its message quotes the body, which may hold secrets. */
function placeOf(error: unknown): string {
  if (!(error instanceof SyntaxError)) return ": it is not UTF-8";
  const place = error.message.match(/position \d+(?: \(line \d+ column \d+\))?/)?.[0];
  return place === undefined ? "" : ` at ${place}`;
}

function refuse(issues: ReturnType<typeof specSchemas.check>): void {
  const [first] = issues ?? [];
  if (!issues || !first) return;
  const code = first.keyword === "required" ? "missing_required_parameter" : "invalid_request";
  throw new ServiceError(code, `${formatIssue(first, "The request")}.`, {
    ...(first.path === "" ? {} : { param: first.path }),
    ...(issues.length > 1 ? { details: { issues: issues.slice(0, 8) } } : {}),
  });
}
