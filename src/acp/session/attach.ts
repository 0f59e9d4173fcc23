/** What the client lends to a session that it has open: its servers of tools, its files, more folders. */
import { abortable } from "../../base/abortable.ts";
import type {
  McpServer,
  AgentContext,
  ReadTextFileRequest,
  WriteTextFileRequest,
} from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "../wire/connection.ts";
import { checkRoots, toRoot, type SessionRoot, checkFolder } from "./folder.ts";
import type { AcpSession } from "./session.ts";
import type { McpServerOptions } from "../../agent/mcp/connection.ts";
import { McpServers } from "../../agent/mcp/servers.ts";
import { commandEnvironment } from "../../exec/environment.ts";
import type { Clock } from "../../base/clock.ts";
import { sha256 } from "../../base/digest.ts";
import { forgetSecret, registerSecret } from "../../base/observe/redact.ts";
import type { AcpDeps, ClientMcpSettings } from "../deps.ts";
import { invalidParams } from "../wire/error.ts";
import { isWithin } from "../../agent/question/policy/paths.ts";
import { ToolError, type FileAccess } from "../../agent/tool/tool.ts";

/** What the requests that open a session say of it. */
export interface ResourceParams {
  readonly cwd: string;
  readonly additionalDirectories?: readonly string[];
  readonly mcpServers?: readonly McpServer[];
}

interface CheckedResources {
  /** Where the session works. */
  readonly folder: SessionRoot;
  /** Where it works besides. */
  readonly more: readonly SessionRoot[];
  readonly servers: readonly ClientServer[];
}

/** Nothing is started yet. RequestError -32602 for what cannot be lent. */
export async function checkResources(params: ResourceParams): Promise<CheckedResources> {
  const servers = checkServers(params.mcpServers ?? []);
  const more = await checkRoots(params.additionalDirectories ?? []);
  return { folder: await toRoot(await checkFolder(params.cwd)), more, servers };
}

/**
 * Lends it for as long as the session is open here, in the place of what was lent to it before; servers that are the
 * same go on, and connect again where they failed. They connect in the background: resolves when they have, or after
 * `acp.mcp_wait_seconds`, or nobody waits any more.
 */
export async function attachToSession(
  connection: AcpConnection,
  session: AcpSession,
  { folder, more, servers, signal }: CheckedResources & { readonly signal: AbortSignal },
): Promise<void> {
  const deps = await connection.deps();
  const before = attached.get(session);
  if (!before) session.onClose(() => detach(session));
  const files = deps.settings.clientFiles && clientFiles(connection, session.id, [folder, ...more]);
  const roots = more.flatMap(({ given, real }) => [...new Set([given, real])]);
  const detachFiles = deps.agent.deps.hosts.attach(session.id, { roots, ...(files ? { files } : {}) });
  const key = JSON.stringify([folder.given, servers]);
  const isSame = before?.key === key;
  const mcpServers = isSame
    ? before.mcpServers
    : attachServers(deps, { id: session.id, cwd: folder.given }, servers);
  attached.set(session, { key, mcpServers, detachFiles });
  void before?.detachFiles();
  if (!isSame) void before?.mcpServers.release();
  // It may have been closed while the agent loaded.
  if (session.signal.aborted) return detach(session);
  await abortable(mcpServers.start(), signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}

interface AttachedResources {
  readonly key: string;
  readonly mcpServers: AttachedServers;
  readonly detachFiles: () => Promise<void>;
}

const attached = new WeakMap<AcpSession, AttachedResources>();

async function detach(session: AcpSession): Promise<void> {
  const resources = attached.get(session);
  await Promise.all([resources?.detachFiles(), resources?.mcpServers.release()]);
}

interface AttachedServers {
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
const FAILURE_REPORT_MS = 500;

/** Lends the tools of the servers to the session, which works in `cwd`: as they come, once the servers are started. */
function attachServers(
  { agent, clock, log, settings: { mcp } }: AcpDeps,
  session: { readonly id: string; readonly cwd: string },
  servers: readonly ClientServer[],
): AttachedServers {
  if (servers.length === 0) return { start: async () => {}, release: async () => {} };
  const secrets = servers.flatMap(serverSecrets);
  for (const secret of secrets) registerSecret(secret);
  const mcpServers = new McpServers(log);
  const options = mcp.isOffered ? namedOptions(servers, session.cwd, mcp) : {};
  let settled = Promise.resolve();
  const sentNotices = new Set<string>();
  const notices = () => (mcp.isOffered ? mcpServers.notices() : [NOT_OFFERED]);
  const release = agent.deps.hosts.attach(session.id, {
    tools: () => mcpServers.tools(),
    settled: () => settled,
    notices: () => notices().filter((notice) => !sentNotices.has(notice) && sentNotices.add(notice)),
    close: async () => {
      await mcpServers.close();
      secrets.forEach(forgetSecret);
    },
  });
  const start = () => {
    sentNotices.clear();
    const started = mcpServers.use(options);
    settled = within(started, Math.min(mcp.startTimeoutMs + FAILURE_REPORT_MS, MAX_PROMPT_WAIT_MS), clock);
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
    servers.map((server) => [
      distinctName(server.name, taken),
      { ...limits, ...toServerOptions(server, cwd) },
    ]),
  );
}

function toServerOptions(server: ClientServer, cwd: string) {
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

/** Those of kinds that are served. */
type ClientServer = Extract<McpServer, { type: "http" }> | Exclude<McpServer, { type: string }>;

const MAX_SERVERS = 32;
const SECRET_NAME = /key|token|secret|passw|pwd|auth|credential|cookie|session|signature|_pat$|^pat$/i;
/** Headers that say what is spoken, not who speaks. */
const PLAIN_HEADER =
  /^(accept(-.*)?|content-.*|user-agent|host|origin|referer|cache-control|connection|mcp-protocol-version)$/i;
/** Letters and digits in one piece, as no address or setting is written. */
const RANDOM_VALUE = /^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=]{24,}$/;
/** Such as SSH_AUTH_SOCK has. */
const PATH = /^\/[\w.@-]+(\/[\w.@-]*)+$/;

/**
 * The servers, with nothing but what makes them: `_meta` may be another one each time. RequestError -32602 for kinds of
 * servers that are not served, for too many and for addresses that are none.
 */
export function checkServers(servers: readonly McpServer[]): readonly ClientServer[] {
  if (servers.length > MAX_SERVERS) {
    throw invalidParams("mcpServers", `A session takes at most ${MAX_SERVERS} servers.`);
  }
  return servers.map(checkServer);
}

/** What must not be told to anybody but the server: also without the word that stands before it in a header. */
export function serverSecrets(server: ClientServer): readonly string[] {
  if ("url" in server) {
    return server.headers
      .filter(({ name }) => !PLAIN_HEADER.test(name))
      .flatMap(({ value }) => [...new Set([value, value.replace(/^\w+ +/, "")])]);
  }
  return server.env
    .filter(({ name, value }) => !PATH.test(value) && (SECRET_NAME.test(name) || RANDOM_VALUE.test(value)))
    .map(({ value }) => value);
}

function checkServer(server: McpServer): ClientServer {
  const { name } = server;
  if (!("type" in server)) {
    const { command, args, env } = server;
    return { name, command, args, env: env.map(plain) };
  }
  const { type } = server;
  if (type !== "http") {
    const known = "name a command, or a server of type http";
    throw invalidParams(
      "mcpServers",
      `The MCP server ${name} is of type ${type}, which is not served: ${known}.`,
    );
  }
  if (!/^https?:$/.test(URL.parse(server.url)?.protocol ?? "")) {
    throw invalidParams("mcpServers", `The url of the MCP server ${name} is no address of http or https.`);
  }
  return { type, name, url: server.url, headers: server.headers.map(plain) };
}

const plain = ({ name, value }: { readonly name: string; readonly value: string }) => ({ name, value });

/** Longest wait for what the client has; then the disk is read. */
const READ_MS = 5_000;
/** Writing may have to wait for what formats and saves. */
const WRITE_MS = 30_000;
/** Longer texts are read from the disk. */
const MAX_CHARACTERS = 5_242_880;

/** The files of the session's folders by way of the client, as far as it offers them. */
function clientFiles(
  connection: AcpConnection,
  sessionId: string,
  roots: readonly SessionRoot[],
): FileAccess {
  const { client } = connection;
  const known = (path: string) => asClientKnows(path, roots);
  return {
    read: async (path, signal) => {
      const name = connection.features.readsFiles ? known(path) : undefined;
      // It may be gone, or not be one that the client opens: the disk knows.
      return name === undefined
        ? undefined
        : readText(client, { sessionId, path: name }, signal).catch(() => undefined);
    },
    writes: (path) => connection.features.writesFiles && known(path) !== undefined,
    write: (path, content, signal) =>
      writeText(client, { sessionId, path: known(path) ?? path, content }, signal),
  };
}

async function readText(
  client: AgentContext,
  file: ReadTextFileRequest,
  signal: AbortSignal,
): Promise<string | undefined> {
  const cancellationSignal = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
  const options = { cancellationSignal, stopWaitingOnCancel: true };
  const answer: unknown = await client.request("fs/read_text_file", file, options);
  const { content } = answer as { readonly content?: unknown };
  return typeof content === "string" && content.length <= MAX_CHARACTERS ? content : undefined;
}

async function writeText(
  client: AgentContext,
  file: WriteTextFileRequest,
  signal: AbortSignal,
): Promise<void> {
  const late = AbortSignal.timeout(WRITE_MS);
  const options = { cancellationSignal: AbortSignal.any([signal, late]), stopWaitingOnCancel: true };
  try {
    await client.request("fs/write_text_file", file, options);
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) {
      throw new ToolError(
        `The editor did not say within ${WRITE_MS / 1000} s that it wrote ${file.path}. Read it before you write again.`,
      );
    }
    const reason = error instanceof Error ? error.message.slice(0, 300) : "no reason given";
    throw new ToolError(`The editor did not write ${file.path}: ${reason}`);
  }
}

/** The path in the terms in which the client named its folder; undefined for what is in none of them. */
function asClientKnows(path: string, roots: readonly SessionRoot[]): string | undefined {
  for (const { given, real } of roots) {
    if (isWithin(path, given)) return path;
    if (isWithin(path, real)) return `${given}${path.slice(real.length)}`;
  }
  return undefined;
}
