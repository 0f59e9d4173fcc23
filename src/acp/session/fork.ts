import { createSessionId } from "../../base/ids.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { OpenedAnswer } from "../settings/config-options.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { checkResources, type ResourceParams } from "./attach.ts";
import type { AcpSession } from "./session.ts";
import { openedAnswer, orClosed } from "./answer.ts";
import { openSession, type KnownSession } from "./open.ts";

export interface ForkCall {
  readonly params: ResourceParams;
  /** Aborts when the client does not want the copy any more. */
  readonly signal: AbortSignal;
}

export interface Forked {
  readonly session: AcpSession;
  readonly answer: OpenedAnswer;
}

/**
 * Opens a copy of a session: what was said in it up to its last complete message, its model, effort and mode, and
 * nobody's leave. One in which nothing was said is copied all the same: the client gets an empty session like it.
 */
export async function forkSession(
  connection: AcpConnection,
  parent: KnownSession,
  { params, signal }: ForkCall,
): Promise<Forked> {
  // What cannot be opened is not copied.
  await checkResources(params);
  const { agent, clock, owner } = await connection.deps();
  const row = await branch(connection, parent);
  const { yolo: _, todos: __, ...settings } = parent.seed.settings ?? {};
  const seed = { ...parent.seed, source: "acp", settings };
  const id = row?.id ?? createSessionId(clock.now());
  try {
    const session = await openSession(connection, { id, seed, row }, params, { signal });
    const answer = await orClosed(connection, session, () => openedAnswer(connection, session, signal));
    return { session, answer };
  } catch (error) {
    if (row) await agent.sessions.delete(id, owner);
    throw error;
  }
}

/** Undefined: there is nothing to copy. */
async function branch(connection: AcpConnection, { id, row }: KnownSession): Promise<SessionRow | undefined> {
  const { agent, owner } = await connection.deps();
  if (!row) return undefined;
  try {
    return await agent.sessions.branch(id, owner, { source: "acp" });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "nothing_to_branch") return undefined;
    throw error;
  }
}
