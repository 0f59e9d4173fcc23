/** What the client lends to a session that it has open: its servers of tools, its files, more folders. */
import { abortable } from "../../base/abortable.ts";
import type { McpServer } from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "../wire/connection.ts";
import { clientFiles } from "./client-files.ts";
import { checkServers, type ClientServer } from "./client-server.ts";
import { joinServers, type JoinedServers } from "./client-servers.ts";
import { checkRoots, toRoot, type SessionRoot } from "./roots.ts";
import { checkFolder } from "./folder.ts";
import type { AcpSession } from "./session.ts";

/** What the requests that open a session say of it. */
export interface ResourceParams {
  readonly cwd: string;
  readonly additionalDirectories?: readonly string[];
  readonly mcpServers?: readonly McpServer[];
}

export interface CheckedResources {
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
  const before = loans.get(session);
  if (!before) session.onClose(() => detach(session));
  const files = deps.settings.clientFiles && clientFiles(connection, session.id, [folder, ...more]);
  const roots = more.flatMap(({ given, real }) => [...new Set([given, real])]);
  const returned = deps.agent.deps.clients.attach(session.id, { roots, ...(files ? { files } : {}) });
  const key = JSON.stringify([folder.given, servers]);
  const isSame = before?.key === key;
  const joined = isSame ? before.joined : joinServers(deps, { id: session.id, cwd: folder.given }, servers);
  loans.set(session, { key, joined, returned });
  void before?.returned();
  if (!isSame) void before?.joined.release();
  // It may have been closed while the agent loaded.
  if (session.signal.aborted) return detach(session);
  await abortable(joined.start(), signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}

interface Loan {
  readonly key: string;
  readonly joined: JoinedServers;
  readonly returned: () => Promise<void>;
}

const loans = new WeakMap<AcpSession, Loan>();

async function detach(session: AcpSession): Promise<void> {
  const loan = loans.get(session);
  await Promise.all([loan?.returned(), loan?.joined.release()]);
}
