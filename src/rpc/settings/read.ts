/** Settings as `config.get` tells them. No secret is in them. Touches the machine. */
import { stat } from "node:fs/promises";
import type { ConfigValue, SessionInfo } from "../../../generated/gateway/types/types.gen.ts";
import { getAtPath, parseDotPath } from "../../base/json/dotpath.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Config } from "../../../generated/config/types.gen.ts";
import { loadConfig } from "../../config/config.ts";
import { configPath } from "../../config/home.ts";
import { schemaAt } from "../../config/schema-path.ts";
import { maskSecrets } from "../../config/secrets/values.ts";
import { displaySetting } from "./display-settings.ts";
import { shownFolder } from "../session/folder.ts";
import type { KnownSession } from "../session/known-session.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { describeInfo } from "../session/session-view.ts";

export interface SettingQuery {
  readonly key: string;
  readonly session: KnownSession | undefined;
  readonly cwd: string | undefined;
}

/** ServiceError `bad_value` for a key that there is not. */
export async function readSetting(ctx: RpcContext, query: SettingQuery): Promise<ConfigValue> {
  const named = NAMED[query.key];
  if (named) return named(ctx, query);
  const shown = displaySetting(query.key);
  if (shown) {
    const value = getAtPath(await currentConfig(ctx.deps), parseDotPath(shown.at) ?? []) ?? null;
    return {
      value,
      display: typeof value === "boolean" ? (value ? "on" : "off") : String(value ?? "default"),
    };
  }
  const path = parseDotPath(query.key);
  if (!path || !schemaAt(path)) throw unknownSetting(query.key);
  const value = getAtPath(await currentConfig(ctx.deps), path);
  return { value: value === undefined ? null : maskSecrets(value, path) };
}

export function unknownSetting(key: string): ServiceError {
  return new ServiceError("bad_value", `unknown config key: ${JSON.stringify(key.slice(0, MAX_SHOWN))}.`, {
    param: "key",
  });
}

const MAX_SHOWN = 64;

type Read = (ctx: RpcContext, query: SettingQuery) => ConfigValue | Promise<ConfigValue>;

const readCwd: Read = async (ctx, query) => ({ value: (await infoOf(ctx, query)).cwd });

/** Keys that are not keys of the file. */
const NAMED: Readonly<Record<string, Read | undefined>> = {
  __proto__: null as never,
  full: async ({ deps }) => ({
    config: maskSecrets(await currentConfig(deps)) as Record<string, unknown>,
  }),
  mtime: async ({ deps }) => {
    const file = await stat(configPath(deps.config.home)).catch(() => undefined);
    return { mtime: (file?.mtimeMs ?? 0) / 1000 };
  },
  provider: async (ctx, query) => {
    const { model, provider } = await infoOf(ctx, query);
    return { model, provider, providers: ctx.deps.agent.deps.models.providers.map(({ name }) => name) };
  },
  model: async (ctx, query) => {
    const { model, provider } = await infoOf(ctx, query);
    return { value: `${provider}:${model}`, display: model, model, provider };
  },
  profile: ({ deps }) => ({ home: deps.config.home, display: deps.config.home }),
  project: async (ctx, query) => {
    const { cwd, branch } = await infoOf(ctx, query);
    return { cwd, branch: branch ?? "" };
  },
  prompt: ({ deps }) => ({ prompt: deps.agent.deps.settings.instructions }),
  reasoning: async (ctx, query) => {
    const effort = (await infoOf(ctx, query)).reasoning_effort;
    return { value: effort ?? "default", display: effort ?? "the provider's default" };
  },
  yolo: async (ctx, query) => {
    const { yolo = false } = await infoOf(ctx, query);
    return { value: yolo, display: yolo ? "on" : "off" };
  },
  busy: ({ deps }) => {
    const { switches, settings } = deps.agent.deps;
    return { value: switches.whenBusy ?? settings.whenBusy };
  },
  title: async (ctx, query) => ({ value: (await infoOf(ctx, query)).title }),
  cwd: readCwd,
  "terminal.cwd": readCwd,
  workdir: readCwd,
};

/** Of the session, else of a session that would be made now. */
async function infoOf(ctx: RpcContext, { session, cwd }: SettingQuery): Promise<SessionInfo> {
  const { deps } = ctx;
  if (session) return describeInfo(deps, { row: session.row, seed: session.live?.seed });
  const folder = await shownFolder(ctx, cwd);
  const seed = { source: "tui", ...(folder === undefined ? {} : { cwd: folder }) };
  return describeInfo(deps, { row: undefined, seed });
}

/** The file as it is now; as the process began while the file is broken. */
export async function currentConfig({ config: { home, env, atStart } }: RpcDeps): Promise<Config> {
  try {
    return (await loadConfig({ home, env })).config;
  } catch (error) {
    if (error instanceof ServiceError) return atStart;
    throw error;
  }
}
