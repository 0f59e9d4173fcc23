import { createHash } from "node:crypto";
import { type Clock, systemClock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { defineTool, type Tool } from "../tool/tool.ts";
import { McpConnection, type McpServerOptions, type McpStatus, type ToolDefinition } from "./connection.ts";

/** Servers by name; a text says why one cannot be used. */
export type McpServersOptions = Readonly<Record<string, McpServerOptions | string>>;

interface Known {
  readonly options: McpServerOptions | string;
  /** Undefined for one that cannot be used. */
  readonly connection: McpConnection | undefined;
}

/**
 * The servers of the Model Context Protocol. They connect in the background; their tools join the agent's as they
 * come, under names that stay the same.
 */
export class McpServers {
  readonly #log: Log;
  readonly #clock: Clock;
  #known = new Map<string, Known>();
  /** Made once for each state of the servers: a turn asks for them each time. */
  #tools:
    | { readonly from: readonly (readonly ToolDefinition[])[]; readonly tools: readonly Tool[] }
    | undefined;

  constructor(log: Log, clock: Clock = systemClock) {
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * Brings the servers in line with `servers`: what is new or changed connects, what is gone closes, what is the same
   * goes on untouched, with its calls. Resolves when all have connected or failed, which their start time bounds.
   */
  async use(servers: McpServersOptions): Promise<void> {
    const before = this.#known;
    const next = new Map<string, Known>();
    for (const [name, options] of Object.entries(servers)) {
      const old = before.get(name);
      next.set(name, old && isSame(old.options, options) ? old : this.#make(name, options));
    }
    this.#known = next;
    const gone = [...before].filter(([name, known]) => next.get(name) !== known);
    await Promise.all([
      ...gone.map(([, { connection }]) => connection?.close()),
      ...[...next.values()].map(({ connection }) => connection?.connect()),
    ]);
  }

  /** The tools of all servers that were connected. */
  tools(): readonly Tool[] {
    const connections = [...this.#known.values()].flatMap(({ connection }) => connection ?? []);
    // Each connect makes a list of its own: tools of the same names may belong to a connection that is closed.
    const from = connections.map(({ tools }) => tools);
    const made = this.#tools;
    if (made?.from.length === from.length && from.every((list, index) => list === made.from[index]))
      return made.tools;
    const tools = toTools(connections);
    this.#tools = { from, tools };
    return tools;
  }

  status(): readonly McpStatus[] {
    return [...this.#known].map(([name, { options, connection }]) =>
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

  /** What people should know: a line for each server that cannot be used. */
  notices(): readonly string[] {
    return this.status().flatMap(({ name, status, error }) =>
      status === "failed" ? [`The MCP server ${name} cannot be used: ${error ?? "unknown"}.`] : [],
    );
  }

  async close(): Promise<void> {
    const known = [...this.#known.values()];
    this.#known = new Map();
    await Promise.all(known.map(({ connection }) => connection?.close()));
  }

  #make(name: string, options: McpServerOptions | string): Known {
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
        description,
        parameters: inputSchema,
        // Its effect is unknown: what a server says of its own tools is not for the policy to believe.
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
 * The name under which the agent knows a server's tool: `mcp_<server>_<tool>`, in the characters that every provider
 * takes. What does not fit, or is taken, ends in a digest, so that a name is the same at each start.
 */
export function toolName(server: string, tool: string, taken: ReadonlySet<string>): string {
  const whole = `mcp_${server}_${tool}`;
  const clean = whole.replace(/[^A-Za-z0-9_-]/g, "_");
  if (clean.length <= MAX_CHARACTERS && !taken.has(clean)) return clean;
  const digest = createHash("sha256").update(whole).digest("hex").slice(0, 8);
  return `${clean.slice(0, MAX_CHARACTERS - 9)}_${digest}`;
}
