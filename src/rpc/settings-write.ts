/** Settings as `config.set` changes them: for a session, for all sessions, or in the file. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { ConfigSetResult } from "../../generated/gateway/types/types.gen.ts";
import { EFFORTS } from "../agent/agent.ts";
import { formatModel } from "../agent/model.ts";
import { parseDotPath } from "../base/dotpath.ts";
import { ServiceError } from "../base/errors.ts";
import { setConfigValue } from "../config/edit.ts";
import { schemaAt } from "../config/schema-path.ts";
import { maskSecrets } from "../config/secret-values.ts";
import { ensureSaved, type KnownSession } from "./known-session.ts";
import type { RpcContext } from "./room.ts";
import { sessionInfo } from "./session-view.ts";
import { unknownSetting } from "./settings-read.ts";

export interface SettingChange {
  readonly key: string;
  readonly value: unknown;
  readonly session: KnownSession | undefined;
  readonly scope: "session" | "global" | undefined;
}

const AT_NEXT_START = "It holds from the next start of agentd on.";

/** ServiceError `bad_value` for a key or value that there is not, `session_busy` for what a turn at work forbids. */
export async function writeSetting(ctx: RpcContext, change: SettingChange): Promise<ConfigSetResult> {
  const named = NAMED[change.key];
  try {
    return await (named ? named(ctx, change) : writeFileKey(ctx, change));
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
  const { name, isGlobal } = readModel(textOf(change));
  if (isGlobal || change.scope === "global") {
    const ref = ctx.room.agent.parts.models.resolve(name);
    if (!ref) throw badValue(`There is no model ${JSON.stringify(name.slice(0, 256))}.`);
    return toFile(ctx, { key: "model", at: "model.default", value: formatModel(ref) });
  }
  const session = sessionOf(change);
  await ensureSaved(ctx.room, session);
  const value = await ctx.room.agent.chooseModel(session.id, session.owner, name);
  return told(ctx, session, { key: "model", value });
};

const reasoning: Write = async (ctx, change) => {
  const level = textOf(change);
  if (change.scope === "global") {
    if (!EFFORTS.some((effort) => effort === level))
      throw badValue(`reasoning must be one of: ${EFFORTS.join(", ")}.`);
    return toFile(ctx, { key: "reasoning", at: "model.reasoning_effort", value: level });
  }
  const session = sessionOf(change);
  await ensureSaved(ctx.room, session);
  await ctx.room.agent.chooseEffort(session.id, session.owner, level === "default" ? null : level);
  return told(ctx, session, { key: "reasoning", value: level });
};

const yolo: Write = async (ctx, change) => {
  const { agent } = ctx.room;
  const wish = readSwitch(change.value);
  if (change.scope === "global" || (!change.session && change.scope === undefined)) {
    const { switches } = agent.parts;
    switches.yolo = wish ?? !switches.yolo;
    return { key: "yolo", value: switches.yolo, scope: "global" };
  }
  const session = sessionOf(change);
  await ensureSaved(ctx.room, session);
  const value = wish ?? !(await agent.status(session.id, session.owner)).yolo;
  await agent.sessions.choose(session.id, session.owner, { yolo: value });
  return told(ctx, session, { key: "yolo", value });
};

const cwd: Write = async (ctx, change) => {
  const session = sessionOf(change);
  const wanted = resolve(ctx.room.agent.parts.settings.workspace, textOf(change));
  const path = await realpath(wanted).catch(() => undefined);
  const found = path === undefined ? undefined : await stat(path).catch(() => undefined);
  if (path === undefined || !found?.isDirectory()) throw badValue("There is no such directory.");
  await ensureSaved(ctx.room, session);
  await ctx.room.agent.sessions.move(session.id, session.owner, path);
  const done = await told(ctx, session, { key: change.key, value: path });
  const branch = done.info?.branch;
  return { ...done, cwd: path, ...(branch === undefined ? {} : { branch }) };
};

const title: Write = async (ctx, change) => {
  const session = sessionOf(change);
  await ensureSaved(ctx.room, session);
  const value = await ctx.room.agent.sessions.rename(session.id, session.owner, textOf(change));
  return told(ctx, session, { key: "title", value });
};

const busy: Write = (ctx, change) =>
  toFile(ctx, { key: "busy", at: "sessions.when_busy", value: textOf(change) });

/** Keys that are not keys of the file, or that may mean a session. */
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
};

async function writeFileKey(ctx: RpcContext, { key, value, scope }: SettingChange): Promise<ConfigSetResult> {
  const path = parseDotPath(key);
  if (!path || !schemaAt(path)) throw unknownSetting(key);
  if (scope === "session") throw badValue(`${key} is no setting of a session.`);
  return toFile(ctx, { key, at: key, value: typeof value === "string" ? value : JSON.stringify(value) });
}

interface FileChange {
  readonly key: string;
  /** In the file. */
  readonly at: string;
  readonly value: string;
}

async function toFile({ room }: RpcContext, { key, at, value }: FileChange): Promise<ConfigSetResult> {
  await setConfigValue({ home: room.config.home, key: at, value });
  const masked = maskSecrets(value, parseDotPath(at) ?? []);
  return { key, value: masked, scope: "global", warning: AT_NEXT_START };
}

/** With the session as it is now. */
async function told(
  { room }: RpcContext,
  { id, owner }: KnownSession,
  done: { readonly key: string; readonly value: unknown },
): Promise<ConfigSetResult> {
  const info = await sessionInfo(room, id, owner);
  return { ...done, scope: "session", ...(info ? { info } : {}) };
}

/** `name`, `name --provider p` or `name --global`, as hosts write it. */
function readModel(text: string): { readonly name: string; readonly isGlobal: boolean } {
  const words = text.split(/\s+/).filter(Boolean);
  const at = words.indexOf("--provider");
  const provider = at < 0 ? undefined : words[at + 1];
  if (at >= 0 && provider === undefined) throw badValue("--provider needs the name of a provider.");
  const rest = words.filter(
    (word, index) => word !== "--global" && (at < 0 || (index !== at && index !== at + 1)),
  );
  const [name, ...more] = rest;
  if (name === undefined || more.length > 0 || name.startsWith("--")) throw badValue("Name one model.");
  return {
    name: provider === undefined ? name : `${provider}:${name}`,
    isGlobal: words.includes("--global"),
  };
}

/** Undefined: the other way round. */
function readSwitch(value: unknown): boolean | undefined {
  if (value === "" || value === null) return undefined;
  if ([true, 1, "1", "on", "true", "yes"].some((yes) => yes === value)) return true;
  if ([false, 0, "0", "off", "false", "no"].some((no) => no === value)) return false;
  throw badValue("The value must be on or off, or empty to switch.");
}

function textOf({ key, value }: SettingChange): string {
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw badValue(`${key} must be a text.`);
}

function sessionOf({ key, session }: SettingChange): KnownSession {
  if (session) return session;
  throw badValue(`${key} is a setting of a session. Name it with session_id.`);
}

const badValue = (message: string) => new ServiceError("bad_value", message, { param: "value" });
