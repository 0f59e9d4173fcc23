import { createHash } from "node:crypto";
import { type Clock, systemClock } from "../../base/time.ts";
import type { Log } from "../../base/observe.ts";
import { defineTool, type Tool } from "../tool/tool.ts";
import { McpConnection, type McpServerOptions, type McpStatus, type ToolDefinition } from "./connection.ts";

/** Servers by name; a text says why a server cannot be used. */
export type McpServersOptions = Readonly<Record<string, McpServerOptions | string>>;

interface Server {
  readonly options: McpServerOptions | string;
  /** Undefined when the server cannot be used. */
  readonly connection: McpConnection | undefined;
}

/** The MCP servers. They connect in the background; each adds its tools, with stable names, when it is connected. */
export class McpServers {
  readonly #log: Log;
  readonly #clock: Clock;
  #servers = new Map<string, Server>();
  /** Cached: every run asks for the tools. */
  #tools:
    | { readonly from: readonly (readonly ToolDefinition[])[]; readonly tools: readonly Tool[] }
    | undefined;

  constructor(log: Log, clock: Clock = systemClock) {
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * Applies a new configuration: connects new and changed servers, closes removed ones, and keeps unchanged ones with
   * their calls. Resolves when all have connected or failed, within their start timeouts.
   */
  async use(servers: McpServersOptions): Promise<void> {
    const before = this.#servers;
    const next = new Map<string, Server>();
    for (const [name, options] of Object.entries(servers)) {
      const old = before.get(name);
      next.set(name, old && isSame(old.options, options) ? old : this.#make(name, options));
    }
    this.#servers = next;
    const gone = [...before].filter(([name, server]) => next.get(name) !== server);
    await Promise.all([
      ...gone.map(([, { connection }]) => connection?.close()),
      ...[...next.values()].map(({ connection }) => connection?.connect()),
    ]);
  }

  /** Returns the tools of all connected servers. */
  tools(): readonly Tool[] {
    const connections = [...this.#servers.values()].flatMap(({ connection }) => connection ?? []);
    // Each connection has its own list: tools of the same names may belong to a closed connection.
    const from = connections.map(({ tools }) => tools);
    const made = this.#tools;
    if (made?.from.length === from.length && from.every((list, index) => list === made.from[index]))
      return made.tools;
    const tools = toTools(connections);
    this.#tools = { from, tools };
    return tools;
  }

  status(): readonly McpStatus[] {
    return [...this.#servers].map(([name, { options, connection }]) =>
      connection
        ? connection.status
        : {
            name,
            status: "failed",
            tools: 0,
            ...(typeof options === "string" ? { error: options } : {}),
          },
    );
  }

  /** Returns a line for people for each server that cannot be used. */
  notices(): readonly string[] {
    return this.status().flatMap(({ name, status, error }) =>
      status === "failed" ? [`The MCP server ${name} cannot be used: ${error ?? "unknown"}.`] : [],
    );
  }

  async close(): Promise<void> {
    const server = [...this.#servers.values()];
    this.#servers = new Map();
    await Promise.all(server.map(({ connection }) => connection?.close()));
  }

  #make(name: string, options: McpServerOptions | string): Server {
    if (typeof options === "string") return { options, connection: undefined };
    return { options, connection: new McpConnection(name, options, { log: this.#log, clock: this.#clock }) };
  }
}

function isSame(a: McpServerOptions | string, b: McpServerOptions | string): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function toTools(connections: readonly McpConnection[]): readonly Tool[] {
  const taken = new Set<string>();
  return connections.flatMap((connection) =>
    connection.tools.map(({ name: own, description, inputSchema }) => {
      const name = toolName(connection.name, own, taken);
      taken.add(name);
      return defineTool<unknown>({
        name,
        toolset: "mcp",
        kind: "other",
        server: connection.name,
        description,
        parameters: inputSchema,
        // The effect is unknown: the policy does not trust a server's own description.
        inspect: () => ({
          kind: "tool",
          title: `${connection.name}: ${own}`,
          ...(connection.mark === undefined ? {} : { identity: `${name}#${connection.mark}` }),
        }),
        run: (input, context) => connection.call(own, input, context),
      });
    }),
  );
}

const MAX_CHARACTERS = 64;

/**
 * Returns the agent's name for a server's tool: `mcp_<server>_<tool>`, in the characters that every provider accepts. A
 * name that is too long or taken ends in a digest, so that it is stable across restarts.
 */
export function toolName(server: string, tool: string, taken: ReadonlySet<string>): string {
  const whole = `mcp_${server}_${tool}`;
  const clean = whole.replace(/[^A-Za-z0-9_-]/g, "_");
  if (clean.length <= MAX_CHARACTERS && !taken.has(clean)) return clean;
  const digest = createHash("sha256").update(whole).digest("hex").slice(0, 8);
  return `${clean.slice(0, MAX_CHARACTERS - 9)}_${digest}`;
}
