/** Methods about slash commands. */
import type { CommandCatalog } from "../../../generated/gateway/types/types.gen.ts";
import { parseCommand, type Command, type Directive } from "../../agent/agent.ts";
import { ServiceError, type ErrorCode } from "../../base/errors.ts";
import { completePath } from "../session/complete.ts";
import { shownRoots } from "../session/files.ts";
import { requireScope } from "../connection/calls.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { showDirective } from "./prompt.ts";
import { callerSession, namedSession, type CallerSession, callerCwd } from "../session/session.ts";
import { parseModelChoice } from "../../agent/model.ts";
import { writeSetting } from "../settings/write.ts";
import { ensureSaved, notifyChanged, notifyInfo } from "../events/hub.ts";

type Names =
  | "commands.catalog"
  | "command.resolve"
  | "command.dispatch"
  | "slash.exec"
  | "complete.slash"
  | "complete.path";

const MAX_COMPLETIONS = 30;

export const commandMethods: RpcGroup<Names, RpcContext> = {
  "commands.catalog": async ({ params, ctx }) => {
    await namedSession(ctx, params.session_id);
    return catalogue(await ctx.deps.commands.list());
  },

  "command.resolve": async ({ params, ctx }) => {
    const { name, description, category } = await ctx.deps.commands.resolve(params.name);
    return { canonical: name, description, category };
  },

  "command.dispatch": async ({ params, ctx, signal }) => {
    const { command, name, arg } = params;
    const isName = name !== undefined || arg !== undefined;
    if ((command === undefined) === !isName) {
      throw new ServiceError("invalid_params", "Pass either command, or name and arg.", {
        details: {
          issues: [{ path: "command", message: "is required unless name is given, and excludes it" }],
        },
      });
    }
    const text = command ?? `/${(name ?? "").trim().replace(/^\//, "")} ${arg ?? ""}`;
    if (text.replace(/^\s*\/?/, "").trim() === "") throw emptyCommand();
    const session = await namedSession(ctx, params.session_id);
    return showDirective(await run(ctx, { text, session, signal }), { ...ctx, sessionId: session?.id });
  },

  "slash.exec": async ({ params, ctx, signal }) => {
    const text = `/${params.command.trim().replace(/^\//, "")}`;
    if (text === "/") throw emptyCommand();
    const session = await callerSession(ctx, params.session_id);
    const parsed = parseCommand(text);
    const command = parsed && (await ctx.deps.commands.resolve(parsed.name));
    if (command?.category === "Skills") {
      throw new ServiceError("not_dispatchable", `/${command.name} is a skill. Use command.dispatch.`);
    }
    const done = await run(ctx, { text, session, signal });
    if (done.type === "exec" && done.sessionId === undefined) return { output: done.output };
    return showDirective(done, { ...ctx, sessionId: session.id });
  },

  "complete.slash": async ({ params, ctx }) => {
    await namedSession(ctx, params.session_id);
    const typed = /^\/(\S*)(\s+)?(.*)$/s.exec(params.text);
    if (!typed) return { items: [] };
    const [, name = "", gap, rest = ""] = typed;
    const all = await ctx.deps.commands.list();
    if (gap === undefined) return { items: byName(all, name.toLowerCase()), replace_from: 1 };
    const wanted = name.toLowerCase();
    const command = all.find((each) => each.name.toLowerCase() === wanted || each.aliases?.includes(wanted));
    const items = (command?.subcommands ?? [])
      .filter((sub) => sub.startsWith(rest) && sub !== rest)
      .slice(0, MAX_COMPLETIONS)
      .map((sub) => ({ text: sub, display: sub, meta: "" }));
    return { items, replace_from: 1 + name.length + gap.length };
  },

  "complete.path": async ({ params, ctx, signal }) => {
    const { deps } = ctx;
    const session = await namedSession(ctx, params.session_id);
    const cwd = callerCwd(ctx, session);
    const items = await completePath(params.word, {
      cwd,
      within: params.cwd,
      roots: shownRoots(ctx, cwd),
      userHome: deps.config.userHome,
      max: MAX_COMPLETIONS,
      signal,
    });
    return { items };
  },
};

interface Typed {
  readonly text: string;
  readonly session: CallerSession | undefined;
  readonly signal: AbortSignal;
}

async function run(ctx: RpcContext, { text, session, signal }: Typed): Promise<Directive> {
  const { deps, peer } = ctx;
  const { owner } = peer.identity;
  const parsed = parseCommand(text);
  const command = parsed && (await deps.commands.resolve(parsed.name));
  if (command) checkScope(command, ctx);
  // Help needs no session. Every other command needs a saved one.
  if (session && command && command.category !== "Help") await ensureSaved(deps, session);
  const args = parsed?.args ?? "";
  try {
    if (command?.name === "model" && args !== "" && parseModelChoice(args).isGlobal) {
      return await chooseDefaultModel(ctx, args, session);
    }
    const done = await deps.commands.dispatch(text, {
      agent: deps.agent,
      owner,
      signal,
      ...(session && command?.category !== "Help" ? { sessionId: session.id } : {}),
    });
    if (command && LISTED.has(command.name)) notifyChanged(deps, owner);
    if (command && FOR_ALL.has(command.name)) await notifyInfo(deps);
    // A session that a command created is open here, although it is saved only with its first prompt.
    if (done.type === "exec" && done.sessionId !== undefined) {
      deps.agent.live.open({ id: done.sessionId, owner, seed: { source: "tui" } });
    }
    return done;
  } catch (error) {
    const code = error instanceof ServiceError ? COMMAND_CODES[error.code] : undefined;
    if (code === undefined || !(error instanceof ServiceError)) throw error;
    throw new ServiceError(code, error.message, { cause: error });
  }
}

/** Does what `config.set` does for a model of all sessions, and so requires its scope. */
async function chooseDefaultModel(
  ctx: RpcContext,
  value: string,
  session: CallerSession | undefined,
): Promise<Directive> {
  requireScope(ctx.peer.identity, "admin", "/model --global");
  const { value: model } = await writeSetting(ctx, { key: "model", value, session, scope: "global" });
  return { type: "exec", output: `Model of all sessions: ${String(model)}.` };
}

/** Commands that change the list of sessions. */
const LISTED: ReadonlySet<string> = new Set(["title", "branch"]);
/** Commands that may change all sessions. */
const FOR_ALL: ReadonlySet<string> = new Set(["yolo", "reload-mcp"]);
/** Commands that require the scope of the methods that do the same. */
const SCOPES: ReadonlyMap<string, string> = new Map([
  ["yolo", "admin"],
  ["mode", "admin"],
  ["reload-mcp", "admin"],
  ["reload-env", "admin"],
  ["cron", "jobs"],
  ["grants", "approvals"],
]);

/** Checks the scope of a command. ServiceError `insufficient_scope`. */
function checkScope({ name, category }: Command, { peer: { identity } }: RpcContext): void {
  const scope = category === "Your own" || category === "Skills" ? undefined : SCOPES.get(name);
  if (scope !== undefined) requireScope(identity, scope, `/${name}`);
}

/** Maps errors of commands to the codes that hosts know. */
const COMMAND_CODES: Partial<Record<ErrorCode, ErrorCode>> = {
  model_not_found: "bad_value",
  invalid_request: "bad_value",
  invalid_title: "bad_value",
  nothing_to_undo: "command_usage",
  nothing_to_branch: "command_usage",
};

function catalogue(commands: readonly Command[]): CommandCatalog {
  const pairOf = ({ name, description }: Command): [string, string] => [`/${name}`, description];
  const aliases = commands.flatMap(({ name, aliases: others = [] }) =>
    others.map((alias) => [`/${alias}`, `/${name}`] as const),
  );
  const names = commands.map(({ name }) => [`/${name}`, `/${name}`] as const);
  const subs = commands.flatMap(({ name, subcommands = [] }) =>
    subcommands.length === 0 ? [] : [[`/${name}`, [...subcommands]] as [string, string[]]],
  );
  const groups = Map.groupBy(commands, ({ category }) => category);
  return {
    pairs: commands.map(pairOf),
    sub: Object.fromEntries(subs),
    // A name wins over an alias of another command.
    canon: Object.fromEntries([...aliases, ...names]),
    categories: [...groups].map(([name, each]) => ({ name, pairs: each.map(pairOf) })),
    skill_count: groups.get("Skills")?.length ?? 0,
    warning: "",
  };
}

/** Completes what was typed, never replaces it: a typed alias stays an alias, and an exact match comes first. */
function byName(commands: readonly Command[], start: string) {
  const matches = commands.flatMap((command) => {
    const names = [command.name, ...(command.aliases ?? [])];
    const fits = names.filter((name) => name.toLowerCase().startsWith(start));
    const exact = fits.find((name) => name.toLowerCase() === start);
    return [...new Set([...(exact === undefined ? [] : [exact]), ...fits.slice(0, 1)])].map((text) => ({
      text,
      isExact: text === exact,
      display: command.hint === undefined ? `/${text}` : `/${text} ${command.hint}`,
      meta: text === command.name ? command.description : `${command.description} (/${command.name})`,
    }));
  });
  return [...matches.filter(({ isExact }) => isExact), ...matches.filter(({ isExact }) => !isExact)]
    .slice(0, MAX_COMPLETIONS)
    .map(({ text, display, meta }) => ({ text, display, meta }));
}

const emptyCommand = () =>
  new ServiceError("empty_command", "The command is empty. /help lists all commands.", {
    param: "command",
  });
