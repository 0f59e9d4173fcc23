/** The servers of the Model Context Protocol that a client names for a session. */
import type { McpServerOptions } from "../../agent/mcp/connection.ts";
import { McpServers } from "../../agent/mcp/servers.ts";
import { commandEnvironment } from "../../exec/environment.ts";
import type { Clock } from "../../base/clock.ts";
import { sha256 } from "../../base/digest.ts";
import { forgetSecret, registerSecret } from "../../base/observe/redact.ts";
import type { AcpDeps } from "../deps.ts";
import { serverSecrets, type ClientServer } from "./client-server.ts";
import type { ClientMcpSettings } from "../settings/settings.ts";

export interface JoinedServers {
  /**
   * Connects those that are not connected (any more). Resolves when all have connected or failed, or are not waited for by
   * whoever opens the session.
   */
  start(): Promise<void>;
  /** Takes their tools from the session; resolves when their processes are gone. */
  release(): Promise<void>;
}

const MAX_NAME_CHARACTERS = 32;
const MARK_CHARACTERS = 16;
/** Longest wait of a prompt for servers that are starting, where they may take longer. */
const MAX_PROMPT_WAIT_MS = 20_000;
/** A server that ran out of its time says so before it is not waited for any longer. */
const LAST_WORD_MS = 500;

/** Lends the tools of the servers to the session, which works in `cwd`: as they come, once the servers are started. */
export function joinServers(
  { agent, clock, log, settings: { mcp } }: AcpDeps,
  session: { readonly id: string; readonly cwd: string },
  servers: readonly ClientServer[],
): JoinedServers {
  if (servers.length === 0) return { start: async () => {}, release: async () => {} };
  const secrets = servers.flatMap(serverSecrets);
  for (const secret of secrets) registerSecret(secret);
  const joined = new McpServers(log);
  const options = mcp.isOffered ? namedOptions(servers, session.cwd, mcp) : {};
  let settled = Promise.resolve();
  const told = new Set<string>();
  const notices = () => (mcp.isOffered ? joined.notices() : [NOT_OFFERED]);
  const release = agent.deps.clients.attach(session.id, {
    tools: () => joined.tools(),
    settled: () => settled,
    notices: () => notices().filter((notice) => !told.has(notice) && told.add(notice)),
    close: async () => {
      await joined.close();
      secrets.forEach(forgetSecret);
    },
  });
  const start = () => {
    told.clear();
    const started = joined.use(options);
    settled = within(started, Math.min(mcp.startTimeoutMs + LAST_WORD_MS, MAX_PROMPT_WAIT_MS), clock);
    return within(started, mcp.waitMs, clock);
  };
  return { start, release };
}

const NOT_OFFERED = "The editor's MCP servers are not used: agent.toolsets of the configuration has no mcp.";

/** By names that are apart from each other and from those of the configuration. */
function namedOptions(
  servers: readonly ClientServer[],
  cwd: string,
  { configuredNames, startTimeoutMs, timeoutMs }: ClientMcpSettings,
): Readonly<Record<string, McpServerOptions>> {
  const taken = new Set(configuredNames);
  const limits = { startTimeoutMs, timeoutMs };
  return Object.fromEntries(
    servers.map((server) => [distinctName(server.name, taken), { ...limits, ...placeOf(server, cwd) }]),
  );
}

function placeOf(server: ClientServer, cwd: string) {
  if ("url" in server) {
    return { mark: markOf([server.url]), url: server.url, headers: valuesOf(server.headers) };
  }
  const { command, args, env } = server;
  const all = { ...commandEnvironment([], {}), ...valuesOf(env) };
  // What a relative path starts depends on where.
  return { mark: markOf([cwd, command, ...args]), command, args, env: all, cwd };
}

/** Another project's server of the same name is another server: leave that was kept for one is not for both. */
function markOf(parts: readonly string[]): string {
  return sha256(JSON.stringify(parts)).slice(0, MARK_CHARACTERS);
}

function valuesOf(entries: readonly { readonly name: string; readonly value: string }[]) {
  return Object.fromEntries(entries.map(({ name, value }) => [name, value]));
}

function distinctName(given: string, taken: Set<string>): string {
  const clean = given.replace(/[^A-Za-z0-9_-]+/g, "_").slice(0, MAX_NAME_CHARACTERS) || "server";
  let name = clean;
  for (let count = 2; taken.has(name); count += 1) name = `${clean}_${count}`;
  taken.add(name);
  return name;
}

/** Resolves with `work`, but after `ms` at the latest. */
function within(work: Promise<void>, ms: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(ms, resolve);
    void work.finally(() => {
      cancel();
      resolve();
    });
  });
}
