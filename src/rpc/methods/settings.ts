/** Methods about settings, models, and reloading. */
import type { RpcGroup, RpcContext, RpcDeps } from "../deps.ts";
import { namedSession } from "../session/address.ts";
import { readSetting, currentConfig } from "../settings/read.ts";
import { writeSetting } from "../settings/write.ts";
import { isReady } from "../../agent/model.ts";
import { modelOf } from "../session/session-view.ts";
import { ServiceError } from "../../base/errors.ts";
import { setConfigValue } from "../../config/file/edit.ts";
import { notifyAll, notifyInfo } from "../events/hub.ts";

export const configMethods: RpcGroup<"config.get" | "config.set", RpcContext> = {
  "config.get": async ({ params: { key, session_id: id, cwd }, ctx }) =>
    readSetting(ctx, { key, session: await namedSession(ctx, id), cwd }),

  "config.set": async ({ params: { key, value, session_id: id, scope }, ctx }) =>
    writeSetting(ctx, { key, value, session: await namedSession(ctx, id), scope }),
};

export const modelMethods: RpcGroup<"model.options", RpcContext> = {
  "model.options": async ({ params, ctx }) => {
    const session = await namedSession(ctx, params.session_id);
    const { model, provider } = modelOf(ctx.deps, { row: session?.row, seed: session?.live?.seed });
    const providers = ctx.deps.agent.deps.models.list().map((each) => ({
      slug: each.name,
      name: each.name,
      // Hosts pass a model as `<model> --provider <slug>`, so the provider is left out here.
      models: each.models.map((model) => model.slice(each.name.length + 1)),
      total_models: each.models.length,
      is_current: each.name === provider,
      authenticated: isReady(each),
      ...(isReady(each) ? {} : { warning: "It has no key. Run `agentd setup` to add one." }),
    }));
    return { providers, model, provider };
  },
};

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
          "Changed tools make the provider read every conversation again. Call again with confirm: true, or with always: " +
          `true, which sets ${CONFIRM} to false.`,
      };
    }
    notifyStatus(deps, "Reconnecting the MCP servers.");
    try {
      const lines = await orReloadFailed("The MCP servers", deps.reload.mcp());
      await notifyInfo(deps);
      return { status: "reloaded", ...(lines.length === 0 ? {} : { message: lines.join("\n") }) };
    } finally {
      notifyStatus(deps, "ready");
    }
  },

  "reload.env": async ({ ctx: { deps } }) => ({
    updated: await orReloadFailed("The environment file", deps.reload.env()),
  }),
};

/** In the file, so that after `always` no process of this home asks again. */
const CONFIRM = "mcp.confirm_reload";

/** Notifies every client, because the tools of all sessions change. */
function notifyStatus(deps: RpcDeps, text: string): void {
  notifyAll(deps, { type: "status.update", ts: deps.clock.now(), payload: { kind: "status", text } });
}

function asFailed(cause: unknown): never {
  const why = cause instanceof ServiceError ? cause.message : "The server log has the details.";
  throw new ServiceError("reload_failed", `${CONFIRM} could not be saved. ${why}`, { cause });
}

/** Wraps failures as ServiceError `reload_failed`. Messages of our own errors are safe to show. */
async function orReloadFailed<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const why = cause instanceof ServiceError ? cause.message : "The server log has the details.";
    throw new ServiceError("reload_failed", `${what} could not be reloaded. ${why}`, { cause });
  }
}
