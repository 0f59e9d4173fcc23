import { shown, usage, type Command, type Commands, notStarted } from "../agent.ts";
import { redact } from "../../base/observe.ts";
import { commandEnvironment, runCommand } from "../../exec/process-group.ts";
import { OutputExcerpt } from "../../exec/output.ts";

/** What the service commands need. */
interface ServiceCommandDeps {
  readonly version: string;
  /** Reloads the `.env` file; resolves to the number of changed variables. */
  readonly reloadEnv: () => Promise<number>;
  /** Reloads the configuration of MCP servers; resolves to a line for each server. */
  readonly reloadMcp: () => Promise<readonly string[]>;
  readonly skills: (
    cwd: string,
  ) => Promise<readonly { readonly name: string; readonly description: string }[]>;
}

/** Commands for tools, skills and the service. */
export function serviceCommands(deps: ServiceCommandDeps, catalog: () => Commands): readonly Command[] {
  return [
    {
      name: "help",
      aliases: ["commands"],
      description: "List the commands, or explain one",
      category: "Help",
      hint: "[command]",
      run: async ({ args, cwd }) => shown(await help(catalog(), args, cwd)),
    },
    {
      name: "version",
      description: "Show the version",
      category: "Help",
      run: async () => shown(`agentd ${deps.version}`),
    },
    {
      name: "tools",
      description: "List the agent's tools",
      category: "Tools",
      run: async ({ agent, sessionId }) => {
        const { tools, clients } = agent.deps;
        const available = sessionId === undefined ? tools() : clients.of(sessionId).tools(tools());
        const sets = Map.groupBy(available, ({ toolset }) => toolset);
        const lines = [...sets].map(([set, tools]) => `${set}: ${tools.map(({ name }) => name).join(", ")}`);
        return shown(lines.length === 0 ? "No tools are available." : lines.join("\n"));
      },
    },
    {
      name: "skills",
      description: "List the skills",
      category: "Tools",
      run: async ({ agent, owner, sessionId }) => {
        const cwd =
          sessionId === undefined
            ? agent.deps.settings.workspace
            : (await agent.status(sessionId, owner)).cwd;
        const skills = await deps.skills(cwd);
        const lines = skills.map(({ name, description }) => `${name}: ${description}`);
        return shown(lines.length === 0 ? "No skills are available." : lines.join("\n"));
      },
    },
    {
      name: "reload-mcp",
      aliases: ["reload_mcp"],
      description: "Reload the MCP server configuration and reconnect changed servers",
      category: "Tools",
      run: async () => {
        const lines = await deps.reloadMcp();
        return shown(lines.length === 0 ? "No MCP servers are configured." : lines.join("\n"));
      },
    },
    {
      name: "reload-env",
      aliases: ["reload_env"],
      description: "Reload the .env file of the home",
      category: "Tools",
      run: async () => {
        const updated = await deps.reloadEnv();
        return shown(`${updated} variable${updated === 1 ? "" : "s"} changed.`);
      },
    },
    grantsCommand,
  ];
}

const grantsCommand: Command = {
  name: "grants",
  description: "List remembered approvals, or revoke one by its number",
  category: "Tools",
  hint: "[revoke <n>]",
  subcommands: ["revoke"],
  run: async ({ agent, owner, args }) => {
    const grants = await agent.deps.grants.list(owner);
    const number = /^revoke\s+(\d{1,6})$/.exec(args)?.[1];
    if (args !== "" && number === undefined) throw usage({ name: "grants", hint: "[revoke <n>]" });
    if (number !== undefined) {
      const chosen = grants[Number(number) - 1];
      const isRevoked = chosen && (await agent.deps.grants.revoke(owner, chosen.signature));
      return shown(
        isRevoked ? `Revoked: ${chosen.title}` : `No approval has the number ${number}. /grants lists them.`,
      );
    }
    const lines = grants.map(({ tool, title }, index) => `${index + 1}. ${tool}: ${title}`);
    return shown(lines.length === 0 ? "No approvals are remembered." : lines.join("\n"));
  },
};

async function help(commands: Commands, args: string, cwd?: string): Promise<string> {
  if (args !== "") {
    const { name, hint = "", description, aliases = [] } = await commands.resolve(args, cwd);
    const also = aliases.length === 0 ? "" : `\nAlso: ${aliases.map((alias) => `/${alias}`).join(", ")}`;
    return `/${name} ${hint}`.trim() + `\n${description}${also}`;
  }
  const groups = Map.groupBy(await commands.list(cwd), ({ category }) => category);
  return [...groups]
    .map(([category, each]) => {
      const lines = each.map(
        ({ name, hint = "", description }) => `  ${`/${name} ${hint}`.trim()}  ${description}`,
      );
      return [category, ...lines].join("\n");
    })
    .join("\n\n");
}

/** A command defined in the configuration. */
export interface QuickCommand {
  readonly type: "alias" | "prompt" | "exec";
  readonly value: string;
  readonly description?: string;
}

/** Runs a shell command in a directory and resolves to its output for people. */
type RunShell = (
  command: string,
  options: { readonly cwd: string; readonly signal: AbortSignal },
) => Promise<string>;

/** Returns the commands of the configuration. `runShell` runs those of type exec, without the agent. */
export function quickCommands(
  configured: Readonly<Record<string, QuickCommand>>,
  runShell: RunShell,
): readonly Command[] {
  return Object.entries(configured).map(([name, { type, value, description }]) => ({
    name,
    description: description ?? `${type}: ${value.slice(0, 80)}`,
    category: "Your own",
    ...(type === "prompt" && value.includes("{args}") ? { hint: "<args>" } : {}),
    run: async ({ agent, owner, sessionId, args, signal }) => {
      if (type === "alias") return { type: "alias", target: `/${value.replace(/^\//, "")} ${args}`.trim() };
      if (type === "prompt") return { type: "send", message: withArguments(value, args) };
      const cwd =
        sessionId === undefined ? agent.deps.settings.workspace : (await agent.status(sessionId, owner)).cwd;
      return shown(await runShell(value, { cwd, signal: signal ?? new AbortController().signal }));
    },
  }));
}

/** Replaces `{args}` by the arguments, or appends them when the text has no `{args}`. */
function withArguments(text: string, args: string): string {
  if (text.includes("{args}")) return text.replaceAll("{args}", () => args);
  return args === "" ? text : `${text}\n\n${args}`;
}

const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 4_000;

/**
 * Returns a function that runs a configured shell command for at most 30 seconds, with at most 4,000 bytes of output.
 */
export function createRunShell(envPassthrough: readonly string[]): RunShell {
  return async (command, { cwd, signal }) => {
    const excerpt = new OutputExcerpt(MAX_OUTPUT_BYTES);
    const end = await runCommand(command, {
      cwd,
      env: { ...commandEnvironment(envPassthrough, {}), PWD: cwd },
      timeoutMs: TIMEOUT_MS,
      onOutput: (bytes) => excerpt.push(bytes),
      signal,
    }).catch(notStarted);
    if (end.stoppedBy === "abort") throw signal.reason;
    const text = redact(excerpt.text());
    if (end.stoppedBy === "timeout") return `${text}\n(stopped after ${TIMEOUT_MS / 1000} s)`.trim();
    if (end.exitCode !== 0) return `${text}\n(exit code ${end.exitCode ?? "none"})`.trim();
    return text === "" ? "(no output)" : text;
  };
}
