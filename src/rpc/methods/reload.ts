/** Methods that read again what can change while the process runs. */
import { ServiceError } from "../../base/errors.ts";
import { setConfigValue } from "../../config/file/edit.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { namedSession } from "../session/known-session.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { currentConfig } from "../settings/read.ts";
import { notifyAll, notifyInfo } from "../events/viewers.ts";

type Names = "reload.mcp" | "reload.env";

export const reloadMethods: RpcGroup<Names, RpcContext> = {
  "reload.mcp": async ({ params, ctx }) => {
    const { deps } = ctx;
    const { session_id: sessionId, confirm, always } = params;
    await namedSession(ctx, sessionId);
    if (always)
      await setConfigValue({ home: deps.config.home, key: CONFIRM, value: "false" }).catch(asFailed);
    if (!confirm && !always && (await currentConfig(deps)).mcp.confirm_reload) {
      return {
        status: "confirm_required",
        message:
          "Other tools make the provider read every conversation anew. Call again with confirm: true, or with always: " +
          `true, which sets ${CONFIRM} to false.`,
      };
    }
    notifyStatus(deps, "Connecting the MCP servers again.");
    try {
      const lines = await orReloadFailed("The MCP servers", deps.reload.mcp());
      await notifyInfo(deps);
      return { status: "reloaded", ...(lines.length === 0 ? {} : { message: lines.join("\n") }) };
    } finally {
      notifyStatus(deps, "ready");
    }
  },

  "reload.env": async ({ ctx: { deps } }) => ({
    updated: await orReloadFailed("The variables of the home", deps.reload.env()),
  }),
};

/** In the file: whoever said `always` is not asked again, by no process of this home. */
const CONFIRM = "mcp.confirm_reload";

/** To everybody: the tools of all sessions are about to be others. */
function notifyStatus(deps: RpcDeps, text: string): void {
  notifyAll(deps, { type: "status.update", ts: deps.clock.now(), payload: { kind: "status", text } });
}

function asFailed(cause: unknown): never {
  const why = cause instanceof ServiceError ? cause.message : "The server log has the details.";
  throw new ServiceError("reload_failed", `${CONFIRM} could not be kept. ${why}`, { cause });
}

/** ServiceError `reload_failed`. What our own errors say is fit to be shown. */
async function orReloadFailed<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const why = cause instanceof ServiceError ? cause.message : "The server log has the details.";
    throw new ServiceError("reload_failed", `${what} could not be loaded again. ${why}`, { cause });
  }
}
