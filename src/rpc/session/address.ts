import type { LiveSession } from "../../agent/session/live-sessions.ts";
import { sessionNotFound } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";

/** A session as it is open here, and as it is saved. One that nobody prompted yet need not be saved. */
export interface SessionPlace {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession;
  readonly row: SessionRow | undefined;
}

/** ServiceError `session_not_found`, and `not_live` for one that is saved and not open here. */
export async function liveSession({ deps, peer }: RpcContext, id: string): Promise<SessionPlace> {
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
    `The session ${JSON.stringify(id)} is saved and not open here. Resume it.`,
    {
      details: { stored: true },
    },
  );
}

/** As recovery leaves it. Undefined for sessions that are not saved, and for others'. */
export async function savedSession(
  deps: RpcDeps,
  id: string,
  owner: string,
): Promise<SessionRow | undefined> {
  return deps.agent.sessions.saved(id, owner);
}
