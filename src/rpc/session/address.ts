import type { LiveSession } from "../../agent/session/live-sessions.ts";
import { sessionNotFound } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";

/** A session as it is open here, and as it is saved. Without a prompt it may not be saved yet. */
export interface OpenSession {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession;
  readonly row: SessionRow | undefined;
}

/** Returns an open session. ServiceError `session_not_found`, and `not_live` for one that is only saved. */
export async function liveSession({ deps, peer }: RpcContext, id: string): Promise<OpenSession> {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(id, owner);
  const row = await savedSession(deps, id, owner);
  if (live) {
    deps.agent.live.touch(id);
    return { id, owner, live, row };
  }
  if (!row) throw sessionNotFound(id);
  throw new ServiceError(
    "not_live",
    `The session ${JSON.stringify(id)} is saved but not open here. Resume it.`,
    {
      details: { stored: true },
    },
  );
}

/** Returns the saved session; undefined for unsaved ones and for those of others. */
export async function savedSession(
  deps: RpcDeps,
  id: string,
  owner: string,
): Promise<SessionRow | undefined> {
  return deps.agent.sessions.saved(id, owner);
}

/** A session of the caller: open here, saved, or both. */
export interface CallerSession {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession | undefined;
  readonly row: SessionRow | undefined;
}

/** Returns a session that is open here or saved. ServiceError `session_not_found`, also for sessions of others. */
export async function callerSession({ deps, peer }: RpcContext, id: string): Promise<CallerSession> {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(id, owner);
  const row = await savedSession(deps, id, owner);
  if (!live && !row) throw sessionNotFound(id);
  return { id, owner, live, row };
}

/** Returns the session if the call names one. */
export async function namedSession(
  ctx: RpcContext,
  id: string | undefined,
): Promise<CallerSession | undefined> {
  return id === undefined ? undefined : callerSession(ctx, id);
}
