/** Reads settings for `config.get`, without secrets. Touches the machine. */
import { stat } from "node:fs/promises";
import type { ConfigValue, ProviderOption, SessionInfo } from "../../../generated/gateway/types/types.gen.ts";
import { getAtPath, parseDotPath } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Config } from "../../../generated/config/types.gen.ts";
import { loadConfig } from "../../config/config.ts";
import { configPath } from "../../config/home.ts";
import { schemaAt } from "../../config/check.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import { isReady } from "../../agent/model.ts";
import { shownFolder } from "../session/files.ts";
import { type CallerSession, describeInfo } from "../session/session.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";

export interface SettingQuery {
  readonly key: string;
  readonly session: CallerSession | undefined;
  readonly cwd: string | undefined;
}

/** Returns a setting. ServiceError `bad_value` for an unknown key. */
export async function readSetting(ctx: RpcContext, query: SettingQuery): Promise<ConfigValue> {
  const named = NAMED[query.key];
  if (named) return named(ctx, query);
  const shown = displaySetting(query.key);
  if (shown) {
    const value = getAtPath(await currentConfig(ctx.deps), parseDotPath(shown.at) ?? []) ?? null;
    if (shown.isSwitch) return { value: switchText(value), display: switchText(value) };
    return { value, display: String(value ?? "default") };
  }
  const path = parseDotPath(query.key);
  if (!path || !schemaAt(path)) throw unknownSetting(query.key);
  const value = getAtPath(await currentConfig(ctx.deps), path);
  return { value: value === undefined ? null : maskSecrets(value, path) };
}

/** Returns the providers with their models. `current` is the one in use. */
export function providerOptions({ agent }: RpcDeps, current: string): ProviderOption[] {
  return agent.deps.models.list().map((each) => ({
    slug: each.name,
    name: each.name,
    // Hosts pass a model as `<model> --provider <slug>`, so the provider is left out here.
    models: each.models.map((model) => model.slice(each.name.length + 1)),
    total_models: each.models.length,
    is_current: each.name === current,
    authenticated: isReady(each),
    ...(isReady(each) ? {} : { warning: "It has no key. Run `agentd setup` to add one." }),
  }));
}

export function unknownSetting(key: string): ServiceError {
  return new ServiceError("bad_value", `unknown config key: ${JSON.stringify(key.slice(0, MAX_SHOWN))}.`, {
    param: "key",
  });
}

const MAX_SHOWN = 64;

type Read = (ctx: RpcContext, query: SettingQuery) => ConfigValue | Promise<ConfigValue>;

const readCwd: Read = async (ctx, query) => ({ value: (await infoOf(ctx, query)).cwd });

/** Keys that do not exist in the file. */
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
    return { model, provider, providers: providerOptions(ctx.deps, provider) };
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
    return { value: yoloValue(yolo), display: switchText(yolo) };
  },
  busy: ({ deps }) => {
    const { switches, settings } = deps.agent.deps;
    return { value: switches.whenBusy ?? settings.whenBusy };
  },
  fast: () => ({ value: "normal", display: "normal" }),
  personality: () => ({ value: "none", display: "none" }),
  title: async (ctx, query) => ({ value: (await infoOf(ctx, query)).title }),
  cwd: readCwd,
  "terminal.cwd": readCwd,
  workdir: readCwd,
};

/** Describes the session, or one that would be created now. */
async function infoOf(ctx: RpcContext, { session, cwd }: SettingQuery): Promise<SessionInfo> {
  const { deps } = ctx;
  if (session) return describeInfo(deps, { row: session.row, seed: session.live?.seed });
  const folder = await shownFolder(ctx, cwd ?? ctx.peer.cwd);
  const seed = { source: "tui", ...(folder === undefined ? {} : { cwd: folder }) };
  return describeInfo(deps, { row: undefined, seed });
}

/** Reads the current file. While the file is broken, returns the configuration at start. */
export async function currentConfig({ config: { home, env, atStart } }: RpcDeps): Promise<Config> {
  try {
    return (await loadConfig({ home, env })).config;
  } catch (error) {
    if (error instanceof ServiceError) return atStart;
    throw error;
  }
}

/** A key that hosts use, and its key in the file. */
export interface DisplaySetting {
  readonly key: string;
  /** The key in the file. */
  readonly at: string;
  /** The values in order, so that `cycle` can advance; undefined for any text that fits the schema. */
  readonly choices?: readonly string[];
  /** True for on/off settings. */
  readonly isSwitch?: boolean;
}

const SECTIONS = ["thinking", "tools", "subagents", "activity"];

const SETTINGS: readonly DisplaySetting[] = [
  { key: "skin", at: "display.skin" },
  { key: "indicator", at: "display.indicator" },
  { key: "details_mode", at: "display.details_mode", choices: ["hidden", "collapsed", "expanded"] },
  { key: "thinking_mode", at: "display.thinking_mode", choices: ["collapsed", "truncated", "full"] },
  { key: "verbose", at: "display.tool_progress", choices: ["off", "new", "all", "verbose"] },
  { key: "statusbar", at: "display.statusbar", choices: ["off", "top", "bottom"] },
  { key: "compact", at: "display.compact", isSwitch: true },
  { key: "mouse", at: "display.mouse", isSwitch: true },
  ...SECTIONS.map((name) => ({ key: `details_mode.${name}`, at: `display.sections.${name}` })),
];

/** Returns undefined for keys that are not display settings. */
export function displaySetting(key: string): DisplaySetting | undefined {
  return SETTINGS.find((setting) => setting.key === key);
}

/**
 * Returns the new value as text for the file; undefined removes the key. `now` is the current value: an empty
 * switch toggles it, and `cycle` advances it. ServiceError `bad_value` for a value that is not text.
 */
export function displayValue(setting: DisplaySetting, value: unknown, now: unknown): string | undefined {
  if (setting.isSwitch) return String(switchValue(value) ?? now !== true);
  if (typeof value !== "string") throw notText(setting.key);
  const text = value.trim();
  const { choices } = setting;
  if (choices && text === "cycle") return choices[(choices.indexOf(String(now)) + 1) % choices.length];
  if (setting.key === "statusbar" && ["", "toggle", "on"].includes(text)) {
    return text === "on" || now === "off" ? "bottom" : "off";
  }
  return text === "" || text === "default" || text === "reset" ? undefined : text;
}

/** Returns the text of a switch, as hosts compare it. */
export const switchText = (isOn: unknown): "on" | "off" => (isOn === true ? "on" : "off");

/** Returns the value of yolo, as hosts compare it. */
export const yoloValue = (isOn: boolean): "1" | "0" => (isOn ? "1" : "0");

/** Returns the value of a switch; undefined toggles it. ServiceError `bad_value`. */
export function switchValue(value: unknown): boolean | undefined {
  if (value === undefined || value === "" || value === null || value === "toggle") return undefined;
  if ([true, 1, "1", "on", "true", "yes"].some((yes) => yes === value)) return true;
  if ([false, 0, "0", "off", "false", "no"].some((no) => no === value)) return false;
  throw new ServiceError("bad_value", "The value must be on or off, or empty to toggle.", { param: "value" });
}

const notText = (key: string) =>
  new ServiceError("bad_value", `${key} must be a string.`, { param: "value" });
