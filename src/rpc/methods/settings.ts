/** Methods about settings, models, and reloading. */
import type { RpcGroup, RpcContext, RpcDeps } from "../deps.ts";
import { namedSession, modelOf, callerCwd } from "../session/session.ts";
import { readSetting, currentConfig, providerOptions } from "../settings/read.ts";
import { writeSetting } from "../settings/write.ts";
import { ServiceError } from "../../base/errors.ts";
import { setConfigValue } from "../../config/file.ts";
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
    return { providers: providerOptions(ctx.deps, provider), model, provider };
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
          "A changed tool list invalidates the provider's prompt cache. Type /reload-mcp now to reload, or " +
          "/reload-mcp always to reload without being asked again.",
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

export const skillMethods: RpcGroup<"skills.manage" | "skills.reload", RpcContext> = {
  "skills.manage": async ({ params: { action, query = "", session_id: id }, ctx }) => {
    const { skills } = await ctx.deps.skills.list(callerCwd(ctx, await namedSession(ctx, id)));
    const shown = skills.map(({ name, description, path }) => ({ name, description, path }));
    if (action === "inspect") return { info: shown.find(({ name }) => name === query.trim()) ?? {} };
    if (action === "list") return { skills: { skills: shown.map(({ name }) => name) } };
    const wanted = query.trim().toLowerCase();
    const fits = (skill: (typeof shown)[number]) =>
      `${skill.name} ${skill.description}`.toLowerCase().includes(wanted);
    return { results: shown.filter(fits) };
  },

  // Skills are read again whenever their files change. This shows the result to every viewer.
  "skills.reload": async ({ params, ctx }) => {
    const session = await namedSession(ctx, params.session_id);
    const { skills, problems } = await ctx.deps.skills.list(callerCwd(ctx, session));
    await notifyInfo(ctx.deps);
    const lines = problems.map(({ path, message }) => `${path}: ${message}`);
    const { length: count } = skills;
    return { output: [`${count} skills are available.`, ...lines].join("\n"), count };
  },
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
