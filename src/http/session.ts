import { checkSessionName, type SessionAddress } from "../agent/session.ts";
import { ServiceError } from "../base/errors.ts";
import type { Identity } from "./auth.ts";

export interface SessionHeaders {
  readonly "x-agent-session-id"?: string;
  readonly "x-agent-session-key"?: string;
}

/**
 * The session a request speaks of. ServiceError `invalid_session_id`, `invalid_session_key`, and
 * `auth_required_for_session` where no key is asked for: there anybody could read anybody's conversation.
 */
export function sessionAddress(
  identity: Identity,
  headers: SessionHeaders,
  bodyId: string | undefined,
): SessionAddress {
  const headerId = headers["x-agent-session-id"];
  const key = headers["x-agent-session-key"];
  const id = headerId ?? bodyId;
  if (id === undefined && key === undefined) return { owner: identity.name };
  if (!identity.authenticated) {
    throw new ServiceError(
      "auth_required_for_session",
      "Sessions need an API key. Configure api_server.key, or leave the session headers out.",
    );
  }
  if (id !== undefined)
    checkSessionName("id", id, headerId === undefined ? "agent.session_id" : "X-Agent-Session-Id");
  if (key !== undefined) checkSessionName("key", key, "X-Agent-Session-Key");
  return { owner: identity.name, ...(id === undefined ? {} : { id }), ...(key === undefined ? {} : { key }) };
}
