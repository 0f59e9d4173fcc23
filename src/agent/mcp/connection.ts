/** One server of the Model Context Protocol: connected, called, and connected again after it died. */
import type { MCPClient, MCPTransport } from "@ai-sdk/mcp";
import type { Log } from "../../base/log.ts";
import { redact } from "../../base/redact.ts";
import { ToolError, type ToolContext } from "../tool.ts";
import { elicit } from "./elicitation.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** A server as the configuration describes it, with references to variables resolved. */
export type McpServerOptions = McpLimits &
  (
    | {
        readonly command: string;
        readonly args: readonly string[];
        readonly env: Readonly<Record<string, string>>;
        readonly cwd: string;
      }
    | { readonly url: string; readonly headers: Readonly<Record<string, string>> }
  );

interface McpLimits {
  readonly startTimeoutMs: number;
  /** Longest call. */
  readonly timeoutMs: number;
  /** Own names of the tools to offer; absent: all. */
  readonly tools?: readonly string[];
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
const MAX_RESULT_CHARACTERS = 100_000;
/** A server that just failed is not asked again before. */
const RECONNECT_AFTER_MS = 1_000;

export class McpConnection {
  readonly name: string;
  readonly #options: McpServerOptions;
  readonly #log: Log;
  /** Calls at work, for questions the server asks meanwhile. */
  readonly #calls = new Set<ToolContext>();
  #client: MCPClient | undefined;
  #transport: MCPTransport | undefined;
  #connecting: Promise<void> | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #error: string | undefined;
  #tools: readonly ToolDefinition[] = [];
  #closed = false;

  constructor(name: string, options: McpServerOptions, log: Log) {
    this.name = name;
    this.#options = options;
    this.#log = log;
  }

  /** What it offered when it was last connected. */
  get tools(): readonly ToolDefinition[] {
    return this.#tools;
  }

  get status(): McpStatus {
    const { name, tools } = this;
    if (this.#connecting) return { name, status: "connecting", tools: tools.length };
    if (this.#client) return { name, status: "connected", tools: tools.length };
    return { name, status: "failed", tools: tools.length, error: this.#error ?? "it is not connected" };
  }

  /** Connects, if it is not connected. Resolves when that succeeded or failed; never rejects. */
  connect(): Promise<void> {
    if (this.#closed || this.#client) return Promise.resolve();
    this.#connecting ??= this.#open().finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  /** Calls a tool by its own name. ToolError for all that can go wrong. */
  async call(tool: string, input: unknown, context: ToolContext): Promise<string> {
    const client = await this.#connected();
    const { timeoutMs } = this.#options;
    this.#calls.add(context);
    try {
      const result = await client.callTool({
        name: tool,
        arguments: (input ?? {}) as Record<string, unknown>,
        options: { signal: context.signal, timeout: timeoutMs, maxTotalTimeout: timeoutMs },
      });
      return textOf(result);
    } catch (error) {
      context.signal.throwIfAborted();
      if (error instanceof ToolError) throw error;
      if (!this.#client) throw new ToolError(`The MCP server ${this.name} ended during the call.`);
      throw new ToolError(`The MCP server ${this.name} failed: ${reasonOf(error, timeoutMs)}.`);
    } finally {
      this.#calls.delete(context);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#connecting;
    await this.#drop();
  }

  async #connected(): Promise<MCPClient> {
    if (!this.#client && Date.now() - this.#failedAtMs >= RECONNECT_AFTER_MS) await this.connect();
    if (this.#client) return this.#client;
    throw new ToolError(
      `The MCP server ${this.name} cannot be reached: ${this.#error ?? "it is not connected"}.`,
    );
  }

  async #open(): Promise<void> {
    const { startTimeoutMs } = this.#options;
    const signal = AbortSignal.timeout(startTimeoutMs);
    try {
      const { createMCPClient, ElicitationRequestSchema } = await import("@ai-sdk/mcp");
      const transport = this.#makeTransport();
      const client = await abortable(
        createMCPClient({
          transport: transport ?? httpTransport(this.#options),
          clientName: "agentd",
          capabilities: { elicitation: {} },
          initializationOptions: { signal, timeout: startTimeoutMs },
          onUncaughtError: (error) => this.#ended(reasonOf(error, startTimeoutMs)),
        }),
        signal,
      );
      client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => ({
        ...(await elicit(params, [...this.#calls].at(-1)?.questions)),
      }));
      this.#client = client;
      this.#tools = await abortable(this.#list(client, signal), signal);
      this.#error = undefined;
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
      onExit: () => this.#ended("it ended"),
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
    return found.filter(({ name }) => wanted === undefined || wanted.includes(name)).slice(0, MAX_TOOLS);
  }

  /** The connection broke by itself. */
  #ended(reason: string): void {
    if (!this.#client) return;
    void this.#drop();
    this.#fail(reason);
  }

  #fail(reason: string): void {
    this.#error = redact(reason);
    this.#failedAtMs = Date.now();
    if (!this.#closed)
      this.#log.warn("an MCP server cannot be used", { server: this.name, reason: this.#error });
  }

  async #drop(): Promise<void> {
    const [client, transport] = [this.#client, this.#transport];
    this.#client = undefined;
    this.#transport = undefined;
    await client?.close().catch(() => {});
    await transport?.close().catch(() => {});
  }
}

function httpTransport(options: McpServerOptions) {
  if (!("url" in options)) throw new Error("it has neither command nor url");
  return {
    type: "http" as const,
    url: options.url,
    headers: { ...options.headers },
    redirect: "error" as const,
  };
}

/** Undefined for what is no tool that a model could call. */
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
    inputSchema: { ...schema, type: "object" },
  };
}

type CallResult = Awaited<ReturnType<MCPClient["callTool"]>>;

function textOf(result: CallResult): string {
  const parts = Array.isArray(result.content) ? (result.content as readonly ContentPart[]) : [];
  const whole =
    parts.length > 0 ? parts.map(describe).join("\n") : JSON.stringify(result["structuredContent"] ?? "");
  const text =
    whole.length > MAX_RESULT_CHARACTERS
      ? `${whole.slice(0, MAX_RESULT_CHARACTERS)}\n[... ${whole.length - MAX_RESULT_CHARACTERS} characters cut ...]`
      : whole;
  if (result.isError === true) throw new ToolError(text === "" ? "The tool failed." : text);
  return text === "" ? "Done." : text;
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
  return `[${part.type} ${part.mimeType ?? ""}, ${Math.floor(((part.data?.length ?? 0) * 3) / 4)} bytes]`;
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return "unknown";
  if (/timed? ?out|timeout/i.test(`${error.name} ${error.message}`))
    return `no answer within ${timeoutMs / 1000} s`;
  const { code } = error as { code?: unknown };
  if (code === "ENOENT") return "its program was not found";
  return error.message.replace(/\s+/g, " ").slice(0, 300);
}

/** Rejects with the signal's reason when it aborts first: a server that hangs is not waited for. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
