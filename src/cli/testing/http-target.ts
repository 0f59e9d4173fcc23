/** The HTTP server under test. Every answer is checked against the OpenAPI document. */
import document from "../../../generated/specs/http.openapi.json" with { type: "json" };
import { formatIssue, type JsonSchema, SchemaSet, type SchemaMap } from "../../base/schema.ts";
import { Deviation, must } from "./scenario.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: Json;
}

// oxlint-disable-next-line typescript/no-explicit-any -- the body of an answer has been checked against its schema
export type Json = any;

/** One frame of an event stream. */
export interface Frame {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

export interface RequestOptions {
  readonly method?: string;
  readonly body?: unknown;
  /** The body as it is, instead of `body`. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** False: without the key. */
  readonly keyed?: boolean;
  /** False: a path or method that the document does not know. */
  readonly known?: boolean;
}

/** The prompt of all scenarios: cheap on a real model. */
export const PROMPT = "Answer with the single word ready.";

const EVENT_STREAM = "text/event-stream";
const MAX_BODY_BYTES = 16_777_216;

export class HttpTarget {
  readonly #url: string;
  readonly #key: string | undefined;
  readonly #schemas = new SchemaSet(document.components.schemas as unknown as SchemaMap);

  readonly #timeoutMs: number;

  constructor(
    url: string,
    { key, timeoutMs }: { readonly key: string | undefined; readonly timeoutMs: number },
  ) {
    this.#timeoutMs = timeoutMs;
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
  }

  /** Sends a request and checks the answer. Deviation when the document does not allow it. */
  async request(path: string, options: RequestOptions = {}): Promise<Answer> {
    const response = await this.#send(path, options);
    const text = await textOf(response);
    const body = parse(text);
    const { status, headers } = response;
    if (options.known !== false) this.#check(path, { method: options.method ?? "GET", response, text, body });
    return { status, headers, text, body };
  }

  /** Requests an event stream and reads it to its end. Deviation when it is none or a frame does not fit its schema. */
  async stream(path: string, options: RequestOptions = {}): Promise<readonly Frame[]> {
    const { status, headers, text } = await this.request(path, {
      ...options,
      headers: { accept: "text/event-stream", ...options.headers },
    });
    must(status === 200, `${path} answers ${status}, expected 200: ${text.slice(0, 200)}`);
    const type = headers.get("content-type") ?? "";
    must(type.startsWith(EVENT_STREAM), `content-type of ${path} is ${type}, expected text/event-stream`);
    must(text.endsWith("\n\n"), `the stream of ${path} does not end with a whole frame`);
    return framesOf(text);
  }

  async #send(path: string, options: RequestOptions): Promise<Response> {
    const { method = "GET", body, text, keyed = true, headers = {} } = options;
    const payload = text ?? (body === undefined ? undefined : JSON.stringify(body));
    return fetch(`${this.#url}${path}`, {
      method,
      redirect: "manual",
      signal: AbortSignal.timeout(this.#timeoutMs),
      headers: {
        ...(keyed && this.#key !== undefined ? { authorization: `Bearer ${this.#key}` } : {}),
        ...(payload === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(payload === undefined ? {} : { body: payload }),
    });
  }

  #check(
    path: string,
    {
      method,
      response,
      text,
      body,
    }: {
      readonly method: string;
      readonly response: Response;
      readonly text: string;
      readonly body: unknown;
    },
  ): void {
    const what = `${method} ${path.replace(/\?.*/, "")} ${response.status}`;
    const { status, headers } = response;
    must(headers.get("x-request-id") !== null, `${what} has no X-Request-Id`);
    const declared = responseOf(path, method, status);
    must(declared !== undefined, `${what} is not an answer that the document lists`);
    const type = (headers.get("content-type") ?? "").replace(/;.*/, "").trim();
    const { content } = declared;
    if (content.size === 0) return;
    const schema = content.get(type);
    const types = [...content.keys()].join(" or ");
    must(content.has(type), `${what} has the content type "${type}", expected ${types}`);
    if (schema === undefined || type === "text/html" || type === "text/plain") return;
    if (type === EVENT_STREAM) return this.#checkFrames(what, schema, text);
    must(body !== undefined, `${what} is not JSON: ${text.slice(0, 100)}`);
    this.#fits(what, schema, body);
  }

  #checkFrames(what: string, schema: JsonSchema, text: string): void {
    for (const { data } of framesOf(text)) {
      if (data === "[DONE]") continue;
      const value = parse(data);
      must(value !== undefined, `a frame of ${what} is not JSON: ${data.slice(0, 100)}`);
      this.#fits(`a frame of ${what}`, schema, value);
    }
  }

  #fits(what: string, schema: JsonSchema, value: unknown): void {
    const [issue] = this.#schemas.check(schema, value) ?? [];
    if (issue) throw new Deviation(`${what} does not fit its schema: ${formatIssue(issue, "the body")}`);
  }
}

/** Returns the frames of an event stream; comments are left out. */
export function framesOf(text: string): readonly Frame[] {
  return text.split("\n\n").flatMap((block) => {
    const fields = block
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith(":"))
      .map((line) => /^([a-z]+): ?(.*)$/s.exec(line) ?? ["", "", ""]);
    const of = (name: string) =>
      fields.filter(([, field]) => field === name).map(([, , value = ""]) => value);
    const data = of("data");
    if (data.length === 0) return [];
    return [{ id: of("id").at(-1), event: of("event").at(-1), data: data.join("\n") }];
  });
}

/** Returns the parsed data of the frames but the end mark. */
export function eventsOf(frames: readonly Frame[]): readonly Json[] {
  return frames.filter(({ data }) => data !== "[DONE]").map(({ data }) => JSON.parse(data) as Json);
}

/** What the document says about an answer: the schema of each content type. */
interface Declared {
  readonly content: ReadonlyMap<string, JsonSchema | undefined>;
}

interface Operation {
  readonly responses: Readonly<Record<string, ResponseObject | { readonly $ref: string } | undefined>>;
  /** The schema of the frames when the answer is a stream. */
  readonly "x-sse"?: { readonly data?: string };
}

interface ResponseObject {
  readonly content?: Readonly<Record<string, { readonly schema?: JsonSchema }>>;
}

type Operations = Readonly<Record<string, Operation | undefined>>;

/** Returns what the document says about an answer; undefined when it does not list it. */
function responseOf(path: string, method: string, status: number): Declared | undefined {
  const operations = Object.entries(document.paths as unknown as Readonly<Record<string, Operations>>).find(
    ([template]) => patternOf(template).test(path.replace(/\?.*/, "")),
  )?.[1];
  const operation = operations?.[method.toLowerCase()];
  const found = operation?.responses[String(status)];
  if (found === undefined) return undefined;
  const response = "$ref" in found ? sharedResponse(found.$ref) : found;
  const content = new Map(Object.entries(response.content ?? {}).map(([type, { schema }]) => [type, schema]));
  const { data } = operation?.["x-sse"] ?? {};
  if (status === 200 && data !== undefined)
    content.set(EVENT_STREAM, { $ref: `#/components/schemas/${data}` });
  return { content };
}

function sharedResponse(reference: string): ResponseObject {
  const shared = document.components.responses as unknown as Readonly<Record<string, ResponseObject>>;
  return shared[reference.split("/").at(-1) ?? ""] ?? {};
}

function patternOf(template: string): RegExp {
  return new RegExp(`^${template.replaceAll(/[.]/g, "\\.").replaceAll(/\{[^}]+\}/g, "[^/]+")}$`);
}

/** Returns the paths that the document describes. */
export function documentedPaths(): readonly string[] {
  return Object.keys(document.paths);
}

async function textOf(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    bytes += part.length;
    must(bytes <= MAX_BODY_BYTES, `the answer is larger than ${MAX_BODY_BYTES} bytes`);
  }
  return Buffer.concat(parts).toString("utf8");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
