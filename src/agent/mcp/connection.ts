/** One MCP server: connects, calls tools, and reconnects after a failure. */
import type { MCPClient, MCPTransport } from "@ai-sdk/mcp";
import { abortable, type Clock } from "../../base/time.ts";
import { isRecord } from "../../base/data.ts";
import { SchemaSet } from "../../base/schema.ts";
import { type Log, redact } from "../../base/observe.ts";
import type { ToolImage } from "../../../generated/http/client/types.gen.ts";
import { type Questions, type ToolContext, ToolError, type ToolOutput } from "../tool/tool.ts";
import { elicit } from "./elicitation.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** A configured server with resolved variable references. */
export type McpServerOptions = McpLimits &
  (
    | {
        readonly command: string;
        readonly args: readonly string[];
        readonly env: Readonly<Record<string, string>>;
        readonly cwd: string;
      }
    | {
        readonly url: string;
        readonly headers: Readonly<Record<string, string>>;
        /** Default: streamable HTTP. `sse` is the older transport over server-sent events. */
        readonly transport?: "http" | "sse";
      }
  );

interface McpLimits {
  readonly startTimeoutMs: number;
  readonly timeoutMs: number;
  /** Names of the tools to offer, as the server calls them. Default: all. */
  readonly tools?: readonly string[];
  /** Distinguishes servers of one name in remembered approvals. Absent: the name always means this server. */
  readonly mark?: string;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface McpStatus {
  readonly name: string;
  readonly status: "connecting" | "connected" | "failed";
  readonly tools: number;
  readonly error?: string;
}

const MAX_TOOLS = 500;
const MAX_PAGES = 20;
const MAX_DESCRIPTION_CHARACTERS = 4_000;
const MAX_SCHEMA_CHARACTERS = 50_000;
/** Shortest time between a failure and the next connection. */
const RECONNECT_AFTER_MS = 1_000;
/** Longest wait for an orderly close. */
const CLOSE_MS = 2_000;
/** Shorter values would redact ordinary words. */
const MIN_SECRET_CHARACTERS = 4;

export class McpConnection {
  readonly name: string;
  readonly #options: McpServerOptions;
  readonly #log: Log;
  readonly #clock: Clock;
  /** Running calls, which carry the server's questions. */
  readonly #calls = new Set<ToolContext>();
  #client: MCPClient | undefined;
  #transport: MCPTransport | undefined;
  #connecting: Promise<void> | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #error: string | undefined;
  /** The last logged failure; a repeated failure is logged once. */
  #warned: string | undefined;
  #tools: readonly ToolDefinition[] = [];
  readonly #closing = new AbortController();

  constructor(
    name: string,
    options: McpServerOptions,
    { log, clock }: { readonly log: Log; readonly clock: Clock },
  ) {
    this.name = name;
    this.#options = options;
    this.#log = log;
    this.#clock = clock;
  }

  get mark(): string | undefined {
    return this.#options.mark;
  }

  /** The tools of the last connection. */
  get tools(): readonly ToolDefinition[] {
    return this.#tools;
  }

  get status(): McpStatus {
    const { name, tools } = this;
    if (this.#connecting) return { name, status: "connecting", tools: tools.length };
    if (this.#client) return { name, status: "connected", tools: tools.length };
    return {
      name,
      status: "failed",
      tools: tools.length,
      error: this.#error ?? "it is not connected",
    };
  }

  /** Connects unless connected. Resolves on success and on failure; never rejects. */
  connect(): Promise<void> {
    if (this.#closing.signal.aborted || this.#client) return Promise.resolve();
    this.#connecting ??= this.#open().finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  /** Calls a tool by the server's name for it. Throws ToolError on every failure. */
  async call(tool: string, input: unknown, context: ToolContext): Promise<ToolOutput> {
    const client = await this.#connected();
    const { timeoutMs } = this.#options;
    this.#calls.add(context);
    try {
      const result = await client.callTool({
        name: tool,
        arguments: (input ?? {}) as Record<string, unknown>,
        options: { signal: context.signal, timeout: timeoutMs, maxTotalTimeout: timeoutMs },
      });
      return outputOf(result);
    } catch (error) {
      context.signal.throwIfAborted();
      if (error instanceof ToolError) throw error;
      if (!this.#client) throw new ToolError(`The MCP server ${this.name} ended during the call.`);
      const text = `The MCP server ${this.name} failed: ${this.#hide(reasonOf(error, timeoutMs))}.`;
      throw new ToolError(text, isTimeout(error) ? { code: "timed_out" } : {});
    } finally {
      this.#calls.delete(context);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("it was closed"));
    await this.#connecting;
    await this.#drop();
  }

  async #connected(): Promise<MCPClient> {
    if (!this.#client && this.#clock.now() - this.#failedAtMs >= RECONNECT_AFTER_MS) await this.connect();
    if (this.#client) return this.#client;
    throw new ToolError(
      `The MCP server ${this.name} cannot be reached: ${this.#error ?? "it is not connected"}.`,
    );
  }

  async #open(): Promise<void> {
    const { startTimeoutMs } = this.#options;
    const signal = AbortSignal.any([AbortSignal.timeout(startTimeoutMs), this.#closing.signal]);
    try {
      const { createMCPClient, ElicitationRequestSchema } = await import("@ai-sdk/mcp");
      const transport = this.#makeTransport();
      const client = await abortable(
        createMCPClient({
          transport: transport ?? httpTransport(this.#options),
          clientName: "agentd",
          capabilities: { elicitation: {} },
          initializationOptions: { signal, timeout: startTimeoutMs },
          // Receives notifications, late answers and invalid messages. None of them ends the connection.
          onUncaughtError: (error) =>
            this.#log.debug("an MCP server sent an unexpected message", {
              server: this.name,
              reason: this.#hide(reasonOf(error, startTimeoutMs)),
            }),
        }),
        signal,
      );
      client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => ({
        ...(await elicit(params, this.#questions())),
      }));
      this.#client = client;
      this.#tools = await abortable(this.#list(client, signal), signal);
      this.#error = undefined;
      this.#warned = undefined;
    } catch (error) {
      await this.#drop();
      this.#fail(
        signal.aborted
          ? `it did not start within ${startTimeoutMs / 1000} s`
          : reasonOf(error, startTimeoutMs),
      );
    }
  }

  #makeTransport(): MCPTransport | undefined {
    const options = this.#options;
    if (!("command" in options)) return undefined;
    const transport = new StdioTransport({
      ...options,
      onExit: (reason) => this.#ended(reason ?? "it ended"),
      onLog: (line) =>
        this.#log.debug("an MCP server wrote to its log", { server: this.name, line: redact(line) }),
    });
    this.#transport = transport;
    return transport;
  }

  async #list(client: MCPClient, signal: AbortSignal): Promise<readonly ToolDefinition[]> {
    const wanted = this.#options.tools;
    const found: ToolDefinition[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES && found.length < MAX_TOOLS; page++) {
      const listed = await client.listTools({
        ...(cursor === undefined ? {} : { params: { cursor } }),
        options: { signal },
      });
      found.push(...listed.tools.flatMap((tool) => toDefinition(tool) ?? []));
      cursor = listed.nextCursor ?? undefined;
      if (cursor === undefined) break;
    }
    const offered = found.filter(({ name }) => wanted === undefined || wanted.includes(name));
    if (offered.length > MAX_TOOLS || cursor !== undefined)
      this.#log.warn(`an MCP server has too many tools; only the first ${MAX_TOOLS} are offered`, {
        server: this.name,
      });
    return offered.slice(0, MAX_TOOLS);
  }

  /**
   * Returns the running calls' questions; undefined when the calls belong to several sessions, because the server does
   * not say which call its question concerns.
   */
  #questions(): Questions | undefined {
    const calls = [...this.#calls];
    const isOne = new Set(calls.map(({ sessionId }) => sessionId)).size === 1;
    return isOne ? calls.at(-1)?.questions : undefined;
  }

  /** Redacts text from a server, which may repeat its headers. Secret variables are registered for redaction. */
  #hide(text: string): string {
    const values = "url" in this.#options ? this.#options.headers : {};
    return Object.values(values)
      .filter((value) => value.length >= MIN_SECRET_CHARACTERS)
      .reduce((hidden, value) => hidden.replaceAll(value, "[redacted]"), redact(text));
  }

  /** Handles a connection that closed by itself. */
  #ended(reason: string): void {
    if (!this.#client) return;
    void this.#drop();
    this.#fail(reason);
  }

  #fail(reason: string): void {
    this.#error = this.#hide(reason);
    this.#failedAtMs = this.#clock.now();
    if (!this.#closing.signal.aborted && this.#error !== this.#warned) {
      this.#warned = this.#error;
      this.#log.warn("an MCP server cannot be used", { server: this.name, reason: this.#error });
    }
  }

  async #drop(): Promise<void> {
    const [client, transport] = [this.#client, this.#transport];
    this.#client = undefined;
    this.#transport = undefined;
    if (client) await abortable(client.close(), AbortSignal.timeout(CLOSE_MS)).catch(() => {});
    await transport?.close().catch(() => {});
  }
}

function httpTransport(options: McpServerOptions) {
  if (!("url" in options)) throw new Error("it has neither command nor url");
  return {
    type: options.transport ?? ("http" as const),
    url: options.url,
    headers: { ...options.headers },
    redirect: "error" as const,
  };
}

/** Returns undefined for a tool that models cannot call. */
function toDefinition(tool: {
  name: string;
  description?: string | undefined;
  inputSchema: unknown;
}): ToolDefinition | undefined {
  const schema = tool.inputSchema as Readonly<Record<string, unknown>>;
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARACTERS) return undefined;
  return {
    name: tool.name,
    description: (tool.description ?? tool.name).slice(0, MAX_DESCRIPTION_CHARACTERS),
    inputSchema: inputSchema(schema),
  };
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return "unknown";
  if (isTimeout(error)) return `no answer within ${timeoutMs / 1000} s`;
  if ((error as { code?: unknown }).code === "ENOENT") return "its program was not found";
  return error.message.replace(/\s+/g, " ").slice(0, 300);
}

/** The client library has no error code for its timeouts. */
function isTimeout(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // A number is the server's own error, which may mention a timeout.
  if (typeof (error as { code?: unknown }).code === "number") return false;
  return /timed? ?out|timeout/i.test(`${error.name} ${error.message}`);
}

const MAX_RESULT_CHARACTERS = 100_000;

type CallResult = Awaited<ReturnType<MCPClient["callTool"]>>;

/** As base64. Journal events must stay small. */
const MAX_IMAGES_CHARACTERS = 1_048_576;
const IMAGE_TYPE = /^image\/(?:png|jpeg|gif|webp)$/;

/**
 * Returns a result's text for the model, cut to a limit, and its images for people. Throws ToolError for a result that
 * the server marks as an error.
 */
function outputOf(result: CallResult): ToolOutput {
  const parts = Array.isArray(result.content) ? (result.content as readonly ContentPart[]) : [];
  const whole =
    parts.length > 0 ? parts.map(describe).join("\n") : JSON.stringify(result["structuredContent"] ?? "");
  const text =
    whole.length > MAX_RESULT_CHARACTERS
      ? `${whole.slice(0, MAX_RESULT_CHARACTERS)}\n[... ${whole.length - MAX_RESULT_CHARACTERS} characters cut ...]`
      : whole;
  if (result.isError === true) throw new ToolError(text === "" ? "The tool failed." : text);
  const images = imagesOf(parts);
  return { text: text === "" ? "Done." : text, ...(images.length > 0 ? { images } : {}) };
}

function imagesOf(parts: readonly ContentPart[]): readonly ToolImage[] {
  let left = MAX_IMAGES_CHARACTERS;
  return parts.flatMap(({ type, mimeType = "", data = "" }) => {
    if (type !== "image" || !IMAGE_TYPE.test(mimeType) || data.length > left) return [];
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return [];
    left -= data.length;
    return [{ media_type: mimeType, data }];
  });
}

interface ContentPart {
  readonly type: string;
  readonly text?: string;
  readonly mimeType?: string;
  readonly data?: string;
  readonly uri?: string;
  readonly resource?: { readonly uri?: string; readonly text?: string };
}

function describe(part: ContentPart): string {
  if (part.type === "text") return part.text ?? "";
  if (part.type === "resource") return part.resource?.text ?? `[resource ${part.resource?.uri ?? ""}]`;
  if (part.type === "resource_link") return `[resource ${part.uri ?? ""}]`;
  return `[${part.type} ${part.mimeType ?? ""}, ${bytesOf(part.data ?? "")} bytes]`;
}

function bytesOf(base64: string): number {
  return Math.floor((base64.replace(/={1,2}$/, "").length * 3) / 4);
}

type Schema = Readonly<Record<string, unknown>>;

/**
 * Returns a server's schema as a valid object schema. A schema that cannot be checked, because of an invalid pattern or
 * reference, becomes any object, so that calls do not fail; the server validates the input itself.
 */
function inputSchema(given: Schema): Schema {
  const schema = { ...given, type: "object" };
  try {
    new SchemaSet({}).check(schema, {});
    assertSound(schema, schema);
    return schema;
  } catch {
    return { type: "object" };
  }
}

/** Finds problems that validation would meet only with some inputs. */
function assertSound(value: unknown, root: Schema): void {
  if (Array.isArray(value)) return value.forEach((each) => assertSound(each, root));
  if (!isRecord(value)) return;
  if (typeof value["$ref"] === "string" && !leads(value["$ref"], root))
    throw new Error("an unresolvable reference");
  if (typeof value["pattern"] === "string") new RegExp(value["pattern"], "u");
  for (const each of Object.values(value)) assertSound(each, root);
}

function leads(reference: string, root: Schema): boolean {
  if (reference === "#") return true;
  if (!reference.startsWith("#/")) return false;
  let at: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return false;
    at = (at as Schema)[key];
  }
  return true;
}
