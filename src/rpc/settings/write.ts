/** Changes settings for `config.set`: for a session, for all sessions, or in the file. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { ConfigSetResult } from "../../../generated/gateway/types/types.gen.ts";
import { EFFORTS } from "../../agent/agent.ts";
import { formatModel, parseModelChoice } from "../../agent/model.ts";
import type { BusyMode } from "../../agent/run/run.ts";
import { getAtPath, parseDotPath } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { setConfigValue, unsetConfigValue } from "../../config/file.ts";
import { schemaAt } from "../../config/check.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import {
  displaySetting,
  displayValue,
  switchText,
  switchValue,
  yoloValue,
  type DisplaySetting,
  currentConfig,
  unknownSetting,
} from "./read.ts";
import { type CallerSession, sessionInfo } from "../session/session.ts";
import { ensureSaved, notifyAll, notifyChanged, notifyInfo } from "../events/hub.ts";
import type { RpcContext } from "../deps.ts";

export interface SettingChange {
  readonly key: string;
  readonly value: unknown;
  readonly session: CallerSession | undefined;
  readonly scope: "session" | "global" | undefined;
}

const AT_NEXT_START = "It takes effect when agentd restarts.";

/**
 * Changes a setting. ServiceError `bad_value` for an unknown key or value, `session_busy` while a turn forbids the
 * change, `config_failed` when the file cannot be written.
 */
export async function writeSetting(ctx: RpcContext, change: SettingChange): Promise<ConfigSetResult> {
  if (change.value === undefined && !TOGGLES.has(change.key)) throw valueRequired(change.key);
  const named = NAMED[change.key];
  const shown = displaySetting(change.key);
  try {
    if (named) return await named(ctx, change);
    return await (shown ? writeDisplay(ctx, change, shown) : writeFileKey(ctx, change));
  } catch (error) {
    if (!(error instanceof ServiceError) || !BAD.has(error.code)) throw error;
    throw new ServiceError("bad_value", error.message, { param: "value", cause: error });
  }
}

const BAD: ReadonlySet<string> = new Set([
  "invalid_config",
  "invalid_request",
  "model_not_found",
  "invalid_title",
]);

type Write = (ctx: RpcContext, change: SettingChange) => Promise<ConfigSetResult>;

const model: Write = async (ctx, change) => {
  const { name, isGlobal } = parseModelChoice(textOf(change));
  const isForAll = isGlobal || change.scope === "global";
  const ref = ctx.deps.agent.deps.models.resolve(name);
  if (!ref) throw badValue(`No model ${JSON.stringify(name.slice(0, 256))} exists.`);
  const kept = isForAll
    ? await toFile(ctx, { key: "model", at: "model.default", value: formatModel(ref) })
    : undefined;
  // A model for all sessions also applies to the current one, at once.
  if (kept && !change.session) return kept;
  const session = sessionOf(change);
  await ensureSaved(ctx.deps, session);
  const value = await ctx.deps.agent.chooseModel(session.id, session.owner, name);
  return { ...(await withSession(ctx, session, { key: "model", value })), ...kept };
};

const reasoning: Write = async (ctx, change) => {
  const level = textOf(change);
  const shown = SHOWN_REASONING[level];
  if (shown)
    return { ...(await toFile(ctx, { key: "reasoning", ...shown })), value: level, warning: SHOWN_ONLY };
  const effort = EFFORTS.find((known) => known === level);
  if (effort === undefined && level !== "default")
    throw badValue(`reasoning must be one of: ${EFFORTS.join(", ")}, default.`);
  if (change.scope === "global") {
    return toFile(ctx, { key: "reasoning", at: "model.reasoning_effort", value: effort });
  }
  const session = sessionOf(change);
  await ensureSaved(ctx.deps, session);
  await ctx.deps.agent.chooseEffort(session.id, session.owner, effort ?? null);
  return withSession(ctx, session, { key: "reasoning", value: level });
};

/** How hosts show the model's reasoning. */
const SHOWN_REASONING: Readonly<Record<string, { readonly at: string; readonly value: string } | undefined>> =
  {
    __proto__: null as never,
    show: { at: "display.show_reasoning", value: "true" },
    hide: { at: "display.show_reasoning", value: "false" },
    full: { at: "display.thinking_mode", value: "full" },
    clamp: { at: "display.thinking_mode", value: "truncated" },
  };
const SHOWN_ONLY = "This changes only what hosts show, not how much the model thinks.";

const UNTIL_RESTART = "It lasts until agentd restarts. approvals.mode is the permanent setting.";

const yolo: Write = async (ctx, change) => {
  const { agent } = ctx.deps;
  const requested = switchValue(change.value);
  if (change.scope === "global" || (!change.session && change.scope === undefined)) {
    const { switches } = agent.deps;
    switches.yolo = requested ?? !switches.yolo;
    await notifyInfo(ctx.deps);
    return { key: "yolo", value: yoloValue(switches.yolo), scope: "global", warning: UNTIL_RESTART };
  }
  const session = sessionOf(change);
  await ensureSaved(ctx.deps, session);
  const value = requested ?? !(await agent.status(session.id, session.owner)).yolo;
  await agent.sessions.choose(session.id, session.owner, { yolo: value });
  return withSession(ctx, session, { key: "yolo", value: yoloValue(value) });
};

const cwd: Write = async (ctx, change) => {
  const session = sessionOf(change);
  const wanted = resolve(ctx.deps.agent.deps.settings.workspace, textOf(change));
  const path = await realpath(wanted).catch(() => undefined);
  const found = path === undefined ? undefined : await stat(path).catch(() => undefined);
  if (path === undefined || !found?.isDirectory()) throw badValue("No such directory exists.");
  await ensureSaved(ctx.deps, session);
  await ctx.deps.agent.sessions.move(session.id, session.owner, path);
  const done = await withSession(ctx, session, { key: change.key, value: path });
  const branch = done.info?.branch;
  return { ...done, cwd: path, ...(branch === undefined ? {} : { branch }) };
};

const title: Write = async (ctx, change) => {
  const session = sessionOf(change);
  const wanted = textOf(change);
  await ensureSaved(ctx.deps, session);
  const value = await ctx.deps.agent.sessions.rename(session.id, session.owner, wanted);
  notifyChanged(ctx.deps, session.owner);
  return withSession(ctx, session, { key: "title", value });
};

const busy: Write = async (ctx, change) => {
  const value = textOf(change);
  await toFile(ctx, { key: "busy", at: "sessions.when_busy", value });
  ctx.deps.agent.deps.switches.whenBusy = value as BusyMode; // The file accepted the value, so it is valid.
  return { key: "busy", value, scope: "global" };
};

const prompt: Write = async (ctx, change) => {
  const isReset = typeof change.value === "string" && ["", "default", "none"].includes(change.value.trim());
  const text = isReset ? undefined : textOf(change);
  const value = text === undefined ? undefined : JSON.stringify(text);
  return { ...(await toFile(ctx, { key: "prompt", at: "agent.instructions", value })), value: text ?? "" };
};

/** No provider has a fast mode, so only the normal one can be chosen. */
const fast: Write = async (_, { value }) => {
  if (value === undefined || value === "normal" || switchValue(value) === false) {
    return { key: "fast", value: "normal" };
  }
  throw badValue("The models here have no fast mode. The value must be normal.");
};

const personality: Write = async (_, { value }) => {
  if (["", "none", "default"].includes(String(value ?? "").trim()))
    return { key: "personality", value: "none" };
  throw badValue("Personalities are not available. Set the key prompt to change how the agent writes.");
};

/** Keys that do not exist in the file, or that may address a session. */
const NAMED: Readonly<Record<string, Write | undefined>> = {
  __proto__: null as never,
  model,
  reasoning,
  yolo,
  cwd,
  "terminal.cwd": cwd,
  workdir: cwd,
  title,
  busy,
  prompt,
  fast,
  personality,
};

/** Keys whose value may be missing, which toggles them. */
const TOGGLES: ReadonlySet<string> = new Set(["yolo", "fast", "compact", "mouse", "statusbar"]);

async function writeDisplay(
  ctx: RpcContext,
  { key, value, scope }: SettingChange,
  setting: DisplaySetting,
): Promise<ConfigSetResult> {
  if (scope === "session") throw badValue(`${key} is not a session setting.`);
  const { deps } = ctx;
  const path = parseDotPath(setting.at) ?? [];
  const wanted = displayValue(setting, value, getAtPath(await currentConfig(deps), path));
  const { value: kept } = await toFile(ctx, { key, at: setting.at, value: wanted });
  const now = setting.isSwitch ? switchText(kept) : (kept ?? "");
  if (key === "skin") {
    notifyAll(deps, { type: "skin.changed", ts: deps.clock.now(), payload: { name: String(now) } });
  }
  return { key, value: now, scope: "global" };
}

async function writeFileKey(ctx: RpcContext, { key, value, scope }: SettingChange): Promise<ConfigSetResult> {
  const path = parseDotPath(key);
  const schema = path && schemaAt(path);
  if (!schema) throw unknownSetting(key);
  if (scope === "session") throw badValue(`${key} is not a session setting.`);
  const isText = schema["type"] === "string";
  if (isText && typeof value !== "string") throw badValue(`${key} must be a string.`);
  const isTyped = typeof value === "string" && !isText;
  return toFile(ctx, { key, at: key, value: isTyped ? value : JSON.stringify(value) });
}

interface FileChange {
  readonly key: string;
  /** The key in the file. */
  readonly at: string;
  /** The value as text; undefined removes the key, so that its default applies. */
  readonly value: string | undefined;
}

/** Writes a value to the file. Resolves to the value that the file now holds. */
async function toFile({ deps }: RpcContext, { key, at, value }: FileChange): Promise<ConfigSetResult> {
  const edit = { home: deps.config.home, key: at };
  try {
    await (value === undefined ? unsetConfigValue(edit) : setConfigValue({ ...edit, value }));
  } catch (error) {
    // An error in the key or value names the key. Any other error is one of the file.
    throw error instanceof ServiceError && error.param === at ? error : configFailed(error);
  }
  const path = parseDotPath(at) ?? [];
  const kept = maskSecrets(getAtPath(await currentConfig(deps), path) ?? null, path);
  return { key, value: kept, scope: "global", warning: AT_NEXT_START };
}

function configFailed(cause: unknown): ServiceError {
  return new ServiceError(
    "config_failed",
    "The configuration file cannot be changed. `agentd config check` says why.",
    { cause },
  );
}

/** Adds the current session to the result. */
async function withSession(
  { deps }: RpcContext,
  { id, owner }: CallerSession,
  done: { readonly key: string; readonly value: unknown },
): Promise<ConfigSetResult> {
  const info = await sessionInfo(deps, id, owner);
  return { ...done, scope: "session", ...(info ? { info } : {}) };
}

function textOf({ key, value }: SettingChange): string {
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw badValue(`${key} must be a string.`);
}

function sessionOf({ key, session }: SettingChange): CallerSession {
  if (session) return session;
  throw badValue(`${key} is a session setting. Name the session with session_id.`);
}

function valueRequired(key: string): ServiceError {
  const issue = { path: "value", message: `is required for ${key}` };
  return new ServiceError("invalid_params", `invalid params: value ${issue.message}.`, {
    details: { issues: [issue] },
  });
}

const badValue = (message: string) => new ServiceError("bad_value", message, { param: "value" });
