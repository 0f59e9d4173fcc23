import { shown, usage, type Command, type Commands } from "./command.ts";

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
