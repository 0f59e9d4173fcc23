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
export interface LoanParams {
  readonly cwd: string;
  readonly additionalDirectories?: readonly string[];
  readonly mcpServers?: readonly McpServer[];
}

export interface CheckedLoan {
  /** Where the session works. */
  readonly folder: SessionRoot;
  /** Where it works besides. */
  readonly more: readonly SessionRoot[];
  readonly servers: readonly ClientServer[];
}

/** Nothing is started yet. RequestError -32602 for what cannot be lent. */
export async function checkLoan(params: LoanParams): Promise<CheckedLoan> {
  const servers = checkServers(params.mcpServers ?? []);
  const more = await checkRoots(params.additionalDirectories ?? []);
  return { folder: await toRoot(await checkFolder(params.cwd)), more, servers };
}

/**
 * Lends it for as long as the session is open here, in the place of what was lent to it before; servers that are the
 * same go on, and connect again where they failed. They connect in the background: resolves when they have, or after
 * `acp.mcp_wait_seconds`, or nobody waits any more.
 */
export async function lendToSession(
  connection: AcpConnection,
  session: AcpSession,
  { folder, more, servers, signal }: CheckedLoan & { readonly signal: AbortSignal },
): Promise<void> {
  const room = await connection.room();
  const before = loans.get(session);
  if (!before) session.onClose(() => takeBack(session));
  const files = room.settings.clientFiles && clientFiles(connection, session.id, [folder, ...more]);
  const roots = more.flatMap(({ given, real }) => [...new Set([given, real])]);
  const returned = room.agent.parts.hosts.lend(session.id, { roots, ...(files ? { files } : {}) });
  const key = JSON.stringify([folder.given, servers]);
  const isSame = before?.key === key;
  const joined = isSame ? before.joined : joinServers(room, { id: session.id, cwd: folder.given }, servers);
  loans.set(session, { key, joined, returned });
  void before?.returned();
  if (!isSame) void before?.joined.release();
  // It may have been closed while the agent loaded.
  if (session.signal.aborted) return takeBack(session);
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

async function takeBack(session: AcpSession): Promise<void> {
  const loan = loans.get(session);
  await Promise.all([loan?.returned(), loan?.joined.release()]);
}
