/** A platform on loopback that holds its clients to what the vendor documents, and can misbehave on demand. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type JsonSchema, formatIssue, SchemaSet } from "../../../src/base/schema.ts";

export interface Asked {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly raw: string;
  /** The body as JSON, or as fields of a form; undefined when it is neither. */
  readonly body: Readonly<Record<string, unknown>> | undefined;
  /** The files of a form with several parts, or a body of bytes under the name "". */
  readonly files: readonly AskedFile[];
}

export interface AskedFile {
  /** Name of its field. */
  readonly field: string;
  readonly name: string;
  readonly type: string;
  readonly bytes: Buffer;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object goes out as JSON. */
  readonly body?: unknown;
}

/** How a platform misbehaves, whatever it was asked. */
export type Fault =
  /** Promises more bytes than it sends. */
  | "truncate"
  /** Takes the request, and closes. */
  | "close"
  /** Takes the request, and says nothing until the test ends. */
  | "hang"
  /** A page for people, with status 200. */
  | "html"
  /** Elsewhere. */
  | "redirect";

export interface PlatformRoute {
  readonly method: string;
  readonly path: RegExp;
  /** The vendor's schema of the body; what does not fit is a violation, answered with `invalid`. */
  readonly schema?: JsonSchema;
  /** The vendor's answer to a request without right; undefined when it has it. */
  readonly refuse?: (asked: Asked) => Reply | undefined;
  /** The vendor's answer to a body that does not fit. */
  readonly invalid?: (issues: string) => Reply;
  readonly answer: (asked: Asked, match: RegExpExecArray) => Reply;
}

export interface FakePlatform {
  readonly url: string;
  readonly asked: readonly Asked[];
  /** What did not fit the vendor's contract, a sentence each. */
  readonly violations: readonly string[];
  /** What comes instead of the answers to the next requests, one each. */
  next(...replies: readonly (Reply | Fault)[]): void;
  /** Resolves once so many requests have come. */
  count(atLeast: number): Promise<readonly Asked[]>;
}

interface Cleanup {
  after(run: () => Promise<void>): void;
}

const validators = new SchemaSet({});

export async function startPlatform(t: Cleanup, routes: readonly PlatformRoute[]): Promise<FakePlatform> {
  const asked: Asked[] = [];
  const violations: string[] = [];
  const planned: (Reply | Fault)[] = [];
  const waiting: { readonly atLeast: number; readonly resolve: () => void }[] = [];
  const server = createServer(async (request, response) => {
    const one = await readRequest(request);
    asked.push(one);
    const reply = planned.shift() ?? evaluate(routes, one, violations);
    if (typeof reply === "string") misbehave(reply, response);
    else write(response, reply);
    for (const { atLeast, resolve } of waiting) if (asked.length >= atLeast) resolve();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    violations,
    next: (...replies) => void planned.push(...replies),
    async count(atLeast) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ atLeast, resolve });
      if (asked.length >= atLeast) resolve();
      await promise;
      return asked;
    },
  };
}

async function readRequest(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { method = "", url = "/", headers } = request;
  const { pathname: path, searchParams: query } = new URL(url, "http://fake");
  const bytes = Buffer.concat(chunks);
  const raw = bytes.toString();
  const type = headers["content-type"] ?? "";
  const form = type.startsWith("multipart/form-data") ? await readForm(bytes, type) : undefined;
  return {
    method,
    path: decodeURIComponent(path),
    query,
    headers,
    raw,
    body: form ? form.body : readBody(raw, type),
    files: form?.files ?? [{ field: "", name: "", type, bytes }],
  };
}

/** Discord takes the JSON of a message in the field payload_json. */
async function readForm(bytes: Buffer, type: string) {
  const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": type } }).formData();
  const fields: Record<string, unknown> = {};
  const files: AskedFile[] = [];
  for (const [field, value] of form) {
    if (typeof value === "string") fields[field] = value;
    else {
      const content = Buffer.from(await value.arrayBuffer());
      files.push({ field, name: value.name, type: value.type, bytes: content });
    }
  }
  const { payload_json: json } = fields;
  const body = typeof json === "string" ? (JSON.parse(json) as Asked["body"]) : fields;
  return { body, files };
}

function readBody(raw: string, type = ""): Asked["body"] {
  if (type.startsWith("application/x-www-form-urlencoded"))
    return Object.fromEntries(new URLSearchParams(raw));
  if (!type.startsWith("application/json")) return undefined;
  try {
    return JSON.parse(raw) as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}

function evaluate(routes: readonly PlatformRoute[], asked: Asked, violations: string[]): Reply {
  for (const { method, path, schema, refuse, invalid, answer } of routes) {
    const match = path.exec(asked.path);
    if (method !== asked.method || !match) continue;
    const refusal = refuse?.(asked);
    if (refusal) return refusal;
    const issues = schema ? validators.check(schema, asked.body) : undefined;
    if (!issues) return answer(asked, match);
    const said = issues.map((issue) => formatIssue(issue)).join("; ");
    violations.push(`${method} ${asked.path}: ${said}`);
    return invalid?.(said) ?? { status: 400, body: { error: said } };
  }
  violations.push(`There is no ${asked.method} ${asked.path}.`);
  return { status: 404, body: { error: "not found" } };
}

function write(response: ServerResponse, { status, headers = {}, body }: Reply): void {
  const isText = typeof body === "string" || body === undefined;
  const type = isText ? {} : { "content-type": "application/json" };
  response.writeHead(status, { ...type, ...headers });
  response.end(isText ? body : JSON.stringify(body));
}

function misbehave(fault: Fault, response: ServerResponse): void {
  switch (fault) {
    case "truncate":
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"ok": tr', () => response.destroy());
      return;
    case "close":
      response.destroy();
      return;
    case "hang":
      return;
    case "html":
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><h1>Sign in</h1>");
      return;
    case "redirect":
      response.writeHead(302, { location: "http://127.0.0.1:9/elsewhere" }).end();
  }
}
