import type { LiveSession } from "../../agent/session/live-sessions.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { sessionNotFound } from "../../agent/session/session.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { savedSession } from "./address.ts";
import { notifyChanged } from "../events/viewers.ts";

/** A session of the caller's: open here, saved, or both. */
export interface KnownSession {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession | undefined;
  readonly row: SessionRow | undefined;
}

/** ServiceError `session_not_found` for one that is neither open here nor saved, and for others' sessions. */
export async function knownSession({ deps, peer }: RpcContext, id: string): Promise<KnownSession> {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(id, owner);
  const row = await savedSession(deps, id, owner);
  if (!live && !row) throw sessionNotFound(id);
  return { id, owner, live, row };
}

/** The same when a session is named at all. */
export async function namedSession(
  ctx: RpcContext,
  id: string | undefined,
): Promise<KnownSession | undefined> {
  return id === undefined ? undefined : knownSession(ctx, id);
}

/** What is chosen for a session is kept with it: one that is only open is saved first. */
export async function ensureSaved(deps: RpcDeps, session: KnownSession): Promise<SessionRow> {
  if (session.row) return session.row;
  if (!session.live) throw sessionNotFound(session.id);
  const row = await saveSession(deps.store, session.live);
  notifyChanged(deps, session.owner);
  return row;
}
