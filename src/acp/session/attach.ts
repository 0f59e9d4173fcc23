import { abortable, waitAtMost } from "../../base/time.ts";
import {
  type McpServer,
  type AgentContext,
  type ReadTextFileRequest,
  type WriteTextFileRequest,
  RequestError,
} from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection, AcpSession, ClientInstructions } from "../wire/connection.ts";
import { checkRoots, toRoot, type SessionRoot, checkFolder } from "./folder.ts";
import { isInside, sha256, shorten, toOneLine } from "../../base/text.ts";
import { createMcpServers } from "../../agent/create.ts";
import { commandEnvironment } from "../../exec/process-group.ts";
import { forgetSecret, registerSecret } from "../../base/observe.ts";
import type { AcpDeps, ClientMcpSettings } from "../deps.ts";
import { invalidParams } from "../wire/error.ts";
import { ToolError, type FileAccess } from "../../agent/tool/tool.ts";
import { isRecord } from "../../base/data.ts";

/** The parameters of requests that open a session. */
export interface ResourceParams {
  readonly cwd: string;
  readonly additionalDirectories?: readonly string[];
  readonly mcpServers?: readonly McpServer[];
  /** `systemPrompt`: a text that replaces the configured instructions, or `{append}`. */
  readonly _meta?: Readonly<Record<string, unknown>> | null | undefined;
}

interface CheckedResources {
  /** The working folder. */
  readonly folder: SessionRoot;
  /** Additional folders. */
  readonly more: readonly SessionRoot[];
  readonly servers: readonly ClientServer[];
  readonly instructions: ClientInstructions | undefined;
}

/** Validates the parameters and starts nothing. RequestError -32602. */
export async function checkResources(params: ResourceParams): Promise<CheckedResources> {
  const servers = checkServers(params.mcpServers ?? []);
  const more = await checkRoots(params.additionalDirectories ?? []);
  const instructions = readInstructions(params._meta?.["systemPrompt"]);
  return { folder: await toRoot(await checkFolder(params.cwd)), more, servers, instructions };
}

const MAX_INSTRUCTIONS_CHARACTERS = 65_536;

/** Reads `_meta.systemPrompt` as other agents define it. RequestError -32602 for any other form. */
function readInstructions(value: unknown): ClientInstructions | undefined {
  if (value === undefined || value === null) return undefined;
  const appended = isRecord(value) ? value["append"] : undefined;
  const instructions = typeof value === "string" ? value : appended;
  if (typeof instructions !== "string" || instructions.length > MAX_INSTRUCTIONS_CHARACTERS) {
    const forms = `a text of at most ${MAX_INSTRUCTIONS_CHARACTERS} characters, or {"append": text}`;
    throw invalidParams("_meta.systemPrompt", `_meta.systemPrompt must be ${forms}.`);
  }
  return { instructions, ...(typeof value === "string" ? { replacesInstructions: true } : {}) };
}

/**
 * Attaches the resources until the session is closed here, and replaces earlier ones. Unchanged servers stay connected, or
 * reconnect if they failed. Servers connect in the background: resolves when they have, after `acp.mcp_wait_seconds`, or
 * when `signal` aborts.
 */
export async function attachToSession(
  connection: AcpConnection,
  session: AcpSession,
  { folder, more, servers, instructions, signal }: CheckedResources & { readonly signal: AbortSignal },
): Promise<void> {
  const deps = await connection.deps();
  session.instructions = instructions ?? session.instructions;
  const before = attached.get(session);
  if (!before) session.onClose(() => detach(session));
  const files = deps.settings.clientFiles && clientFiles(connection, session.id, [folder, ...more]);
  const roots = more.flatMap(({ given, real }) => [...new Set([given, real])]);
  const detachFiles = deps.agent.deps.clients.attach(session.id, { roots, ...(files ? { files } : {}) });
  const key = JSON.stringify([folder.given, servers]);
  const isSame = before?.key === key;
  const mcpServers = isSame
    ? before.mcpServers
    : attachServers(deps, { id: session.id, cwd: folder.given }, servers);
  attached.set(session, { key, mcpServers, detachFiles });
  session.awaitedServers = servers.length > 0 ? () => mcpServers.awaited() : undefined;
  void before?.detachFiles();
  if (!isSame) void before?.mcpServers.release();
  // The session may have been closed while the agent loaded.
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
   * Connects the disconnected servers. Resolves when all have connected or failed, or after `acp.mcp_wait_seconds`.
   */
  start(): Promise<void>;
  /** Removes their tools from the session. Resolves when their processes have ended. */
  release(): Promise<void>;
  /** Returns the names of the servers that a turn waits for. */
  awaited(): readonly string[];
}

const MAX_NAME_CHARACTERS = 32;
const MARK_CHARACTERS = 16;
/** The longest time that a prompt waits for starting servers. */
const MAX_PROMPT_WAIT_MS = 20_000;
/** Time for a server that times out to report it before the wait ends. */
const FAILURE_REPORT_MS = 500;

/** Attaches the tools of the servers to a session that works in `cwd`, as the servers connect. */
function attachServers(
  { agent, clock, log, settings: { mcp } }: AcpDeps,
  session: { readonly id: string; readonly cwd: string },
  servers: readonly ClientServer[],
): AttachedServers {
  if (servers.length === 0) return { start: async () => {}, release: async () => {}, awaited: () => [] };
  const secrets = servers.flatMap(serverSecrets);
  for (const secret of secrets) registerSecret(secret);
  const mcpServers = createMcpServers(log);
  const options = mcp.isOffered ? namedOptions(servers, session.cwd, mcp) : {};
  let settled: Promise<void> = Promise.resolve();
  let isSettled = true;
  const sentNotices = new Set<string>();
  const notices = () => (mcp.isOffered ? mcpServers.notices() : [NOT_OFFERED]);
  const release = agent.deps.clients.attach(session.id, {
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
    const promptWaitMs = Math.min(mcp.startTimeoutMs + FAILURE_REPORT_MS, MAX_PROMPT_WAIT_MS);
    isSettled = false;
    const waited = waitAtMost(clock, promptWaitMs, started).finally(() => {
      if (settled === waited) isSettled = true;
    });
    settled = waited;
    return waitAtMost(clock, mcp.waitMs, started);
  };
  const connecting = () => mcpServers.status().filter(({ status }) => status === "connecting");
  return { start, release, awaited: () => (isSettled ? [] : connecting().map(({ name }) => name)) };
}

const NOT_OFFERED = "The editor's MCP servers are ignored because agent.toolsets does not include mcp.";

/** Returns the options by server name, unique among these servers and the configured ones. */
function namedOptions(
  servers: readonly ClientServer[],
  cwd: string,
  { configuredNames, startTimeoutMs, timeoutMs }: ClientMcpSettings,
): Parameters<ReturnType<typeof createMcpServers>["use"]>[0] {
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
    const { type: transport, url } = server;
    return { mark: markOf([url]), url, headers: valuesOf(server.headers), transport };
  }
  const { command, args, env } = server;
  const all = { ...commandEnvironment([], {}), ...valuesOf(env) };
  // The folder decides what a relative path starts.
  return { mark: markOf([cwd, command, ...args]), command, args, env: all, cwd };
}

/** Returns a hash of what identifies a server: a grant for one must not apply to another of the same name. */
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

/** A server of a supported type. */
type ClientServer = Extract<McpServer, { type: "http" | "sse" }> | Exclude<McpServer, { type: string }>;

const MAX_SERVERS = 32;
const SECRET_NAME = /key|token|secret|passw|pwd|auth|credential|cookie|session|signature|_pat$|^pat$/i;
/** Headers without credentials. */
const PLAIN_HEADER =
  /^(accept(-.*)?|content-.*|user-agent|host|origin|referer|cache-control|connection|mcp-protocol-version)$/i;
/** A long run of letters and digits, unlike an address or a setting. */
const RANDOM_VALUE = /^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=]{24,}$/;
/** A path, such as the value of SSH_AUTH_SOCK. */
const PATH = /^\/[\w.@-]+(\/[\w.@-]*)+$/;

/**
 * Returns the servers without `_meta`, which may differ in each request. RequestError -32602 for unsupported types, too
 * many servers and invalid URLs.
 */
export function checkServers(servers: readonly McpServer[]): readonly ClientServer[] {
  if (servers.length > MAX_SERVERS) {
    throw invalidParams("mcpServers", `A session can have at most ${MAX_SERVERS} MCP servers.`);
  }
  return servers.map(checkServer);
}

/** Returns the secrets of a server. Header values also count without their scheme, such as `Bearer`. */
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
  if (type !== "http" && type !== "sse") {
    const known = "use a command, or a server of type http or sse";
    throw invalidParams("mcpServers", `The MCP server ${name} has the unsupported type ${type}: ${known}.`);
  }
  if (!/^https?:$/.test(URL.parse(server.url)?.protocol ?? "")) {
    throw invalidParams("mcpServers", `The url of the MCP server ${name} must be an http or https URL.`);
  }
  return { type, name, url: server.url, headers: server.headers.map(plain) };
}

const plain = ({ name, value }: { readonly name: string; readonly value: string }) => ({ name, value });

/** The longest wait for a file of the client; then the disk is read. */
const READ_MS = 5_000;
/** Clients may format a file before they save it. */
const WRITE_MS = 30_000;
/** Longer texts are read from the disk. */
const MAX_CHARACTERS = 5_242_880;

/** Returns access to files in the session's folders through the client, as far as it supports that. */
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
      // The client may not know the file: fall back to the disk.
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
        `The editor did not confirm within ${WRITE_MS / 1000} s that it wrote ${file.path}. Read the file before you write again.`,
      );
    }
    throw new ToolError(`The editor did not write ${file.path}: ${reasonOf(error)}`);
  }
}

const MAX_REASON_CHARACTERS = 300;

/** Returns why the client failed: clients on the SDK put the reason into `data.details` of an "Internal error". */
function reasonOf(error: unknown): string {
  const data = error instanceof RequestError ? error.data : undefined;
  const details = isRecord(data) ? data["details"] : undefined;
  const message = error instanceof Error ? error.message : "no reason given";
  return shorten(toOneLine(typeof details === "string" ? details : message), MAX_REASON_CHARACTERS);
}

/** Returns the path under the folder name that the client used, or undefined outside its folders. */
function asClientKnows(path: string, roots: readonly SessionRoot[]): string | undefined {
  for (const { given, real } of roots) {
    if (isInside(path, given)) return path;
    if (isInside(path, real)) return `${given}${path.slice(real.length)}`;
  }
  return undefined;
}
