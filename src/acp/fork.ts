import { createSessionId } from "../base/ids.ts";
import { ServiceError } from "../base/errors.ts";
import type { SessionRow } from "../store/tables.ts";
import type { AcpConnection } from "./connection.ts";
import { checkLoan, type LoanParams } from "./lend.ts";
import type { AcpSession } from "./session.ts";
import { openSession, type KnownSession } from "./session-open.ts";

/**
 * Opens a copy of a session: what was said in it up to its last complete message, its model, effort and mode, and
 * nobody's leave. One in which nothing was said is copied all the same: the client gets an empty session like it.
 */
export async function forkSession(
  connection: AcpConnection,
  parent: KnownSession,
  params: LoanParams,
): Promise<AcpSession> {
  // What cannot be opened is not copied.
  await checkLoan(params);
  const { agent, clock, owner } = await connection.room();
  const row = await branch(connection, parent);
  const { yolo: _, todos: __, ...settings } = parent.seed.settings ?? {};
  const seed = { ...parent.seed, source: "acp", settings };
  if (!row) return openSession(connection, { id: createSessionId(clock.now()), seed, row }, params);
  try {
    return await openSession(connection, { id: row.id, seed, row }, params);
  } catch (error) {
    await agent.sessions.delete(row.id, owner);
    throw error;
  }
}

/** Undefined: there is nothing to copy. */
async function branch(connection: AcpConnection, { id, row }: KnownSession): Promise<SessionRow | undefined> {
  const { agent, owner } = await connection.room();
  if (!row) return undefined;
  try {
    return await agent.sessions.branch(id, owner, { source: "acp" });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "nothing_to_branch") return undefined;
    throw error;
  }
}
