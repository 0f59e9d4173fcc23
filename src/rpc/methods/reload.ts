/** Methods that read again what can change while the process runs. */
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup } from "../contract.ts";
import { namedSession } from "../known-session.ts";
import type { RpcContext, RpcRoom } from "../room.ts";
import { sessionInfo } from "../session-view.ts";
import { tellViewers } from "../viewers.ts";

type Names = "reload.mcp" | "reload.env";

/** Owners who said `always`: until the process ends they are not asked again. */
const unasked = new WeakMap<RpcRoom["agent"], Set<string>>();

export const reloadMethods: RpcGroup<Names, RpcContext> = {
  "reload.mcp": async ({ params, ctx }) => {
    const { room, peer } = ctx;
    const { owner } = peer.identity;
    const { session_id: sessionId, confirm, always } = params;
    await namedSession(ctx, sessionId);
    const owners = unasked.get(room.agent) ?? new Set();
    unasked.set(room.agent, owners);
    if (always) owners.add(owner);
    if (!confirm && !owners.has(owner)) {
      return {
        status: "confirm_required",
        message: "Other tools make the provider read the conversation anew. Call again with confirm: true.",
      };
    }
    const lines = await orReloadFailed("The MCP servers", room.reload.mcp());
    const info = sessionId === undefined ? undefined : await sessionInfo(room, sessionId, owner);
    if (sessionId !== undefined && info) {
      const ts = room.clock.now();
      tellViewers(room, sessionId, { type: "session.info", session_id: sessionId, ts, payload: info });
    }
    return { status: "reloaded", ...(lines.length === 0 ? {} : { message: lines.join("\n") }) };
  },

  "reload.env": async ({ ctx: { room } }) => ({
    updated: await orReloadFailed("The variables of the home", room.reload.env()),
  }),
};

/** ServiceError `reload_failed`. What our own errors say is fit to be shown. */
async function orReloadFailed<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const why = cause instanceof ServiceError ? cause.message : "The server log has the details.";
    throw new ServiceError("reload_failed", `${what} could not be loaded again. ${why}`, { cause });
  }
}
