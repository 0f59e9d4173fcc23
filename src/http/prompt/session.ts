import { checkSessionName, type SessionAddress } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Identity } from "../edge/auth.ts";

export interface SessionHeaders {
  readonly "x-agent-session-id"?: string;
  readonly "x-agent-session-key"?: string;
}

/** What else the body says of the session, and where in it the names stand. */
export interface BodyNames {
  readonly key?: string | undefined;
  /** Default `agent.` */
  readonly path?: string;
}

/**
 * The session a request speaks of; headers win over the body. ServiceError `invalid_session_id`, `invalid_session_key`, and
 * `auth_required_for_session` where no key is asked for: there anybody could read anybody's conversation.
 */
export function sessionAddress(
  identity: Identity,
  headers: SessionHeaders,
  bodyId: string | undefined,
  body: BodyNames = {},
): SessionAddress {
  const headerId = headers["x-agent-session-id"];
  const headerKey = headers["x-agent-session-key"];
  const id = headerId ?? bodyId;
  const key = headerKey ?? body.key;
  const { path = "agent." } = body;
  if (id === undefined && key === undefined) return { owner: identity.name };
  if (!identity.authenticated) {
    throw new ServiceError(
      "auth_required_for_session",
      "Sessions need an API key. Configure api_server.key, or leave the session headers out.",
    );
  }
  if (id !== undefined)
    checkSessionName("id", id, headerId === undefined ? `${path}session_id` : "X-Agent-Session-Id");
  if (key !== undefined)
    checkSessionName("key", key, headerKey === undefined ? `${path}session_key` : "X-Agent-Session-Key");
  return {
    owner: identity.name,
    ...(id === undefined ? {} : { name: id }),
    ...(key === undefined ? {} : { key }),
  };
}
