/** Composes the agent: its tools, commands, questions, MCP servers and background processes. */
import { type Clock, waitAtMost } from "../base/time.ts";
import { Agent, Commands, type Command } from "./agent.ts";
import { conversationCommands } from "./commands/conversation.ts";
import { modelCommands } from "./commands/model.ts";
import { createRunShell, quickCommands, serviceCommands, type QuickCommand } from "./commands/service.ts";
import { sessionCommands } from "./commands/session.ts";
import type { AgentDeps } from "./deps.ts";
import type { McpStatus } from "./mcp/connection.ts";
import { McpServers, type McpServersOptions } from "./mcp/servers.ts";
import { Grants } from "./question/grants.ts";
import { Questions, type SecretKeeper } from "./question/questions.ts";
import { joinTriggers, type LimitedKey, type RunTrigger } from "./run/run.ts";
import { AttachedClients, VariableShares, type VariableSource } from "./session/session.ts";
import { brief, bundledSkillsFolder, skillCommands, Skills, type SkillsOptions } from "./skills/skills.ts";
import { SpawnTrees } from "./subagent/spawn-tree.ts";
import type { Tool } from "./tool/tool.ts";
import { createTools, type ToolOptions } from "./tools/catalog.ts";
import { Processes } from "./tools/process/processes.ts";
import { Prices } from "./model.ts";
import { KeyLimits } from "./usage/budgets.ts";

/** What the configuration and the modules above the agent give it. */
export interface CreateAgentOptions extends Pick<
  AgentDeps,
  "store" | "clock" | "log" | "engine" | "models" | "checkInput" | "settings" | "tracing" | "runEnded"
> {
  readonly version: string;
  readonly maxLiveSessions: number;
  /** Background processes of the terminal tool at once. */
  readonly maxProcesses: number;
  /** Names of context files, such as AGENTS.md. */
  readonly contextFiles: readonly string[];
  readonly skills: Skills;
  /** Absolute folder of the kept delegation trees. */
  readonly spawnTreesFolder: string;
  readonly builtInTools: Omit<ToolOptions, "skills" | "terminal"> & {
    readonly terminal: Omit<ToolOptions["terminal"], "processes">;
  };
  /** Additional tools. One with the name of a built-in tool replaces it. */
  readonly tools: readonly Tool[];
  readonly mcp: {
    /** Returns the servers of the start. */
    readonly atStart: () => McpServersOptions;
    /** Reads the servers again for a reload. */
    readonly read: () => Promise<McpServersOptions>;
  };
  /** Commands of other modules, in front of those of the configuration. */
  readonly commands: readonly Command[];
  readonly quickCommands: Readonly<Record<string, QuickCommand>>;
  /** Names of further environment variables that quick commands get. */
  readonly envPassthrough: readonly string[];
  readonly triggers: readonly RunTrigger[];
  readonly variables: VariableSource & SecretKeeper & { reload(): Promise<number> };
  /** Absent: no client uses a key. */
  readonly limitedKeys?: readonly LimitedKey[];
}

/** The agent with its commands, tools and skills. */
export interface AgentServices {
  readonly agent: Agent;
  readonly commands: Commands;
  /** The background processes of the terminal tool. */
  readonly processes: Processes;
  readonly skills: Skills;
  /** The status of each configured MCP server. */
  readonly mcp: { status(): readonly McpStatus[] };
  readonly spawnTrees: SpawnTrees;
  readonly reload: {
    /** Reads the `.env` file again. Resolves to the number of changed variables. */
    env(): Promise<number>;
    /**
     * Reads the configuration again and connects its MCP servers. Resolves to a status line for each. `actor`: who asks
     * for it, for the feed.
     */
    mcp(actor?: string): Promise<readonly string[]>;
  };
  /** Ends background processes and MCP servers. Call it after the runs are drained. */
  close(): Promise<void>;
}

/** How long a run waits for MCP servers that are starting. The next run gets the tools that arrive later. */
const MCP_WAIT_MS = 2_000;

/** Creates the agent, not started. ServiceError `invalid_config` for an unknown toolset. */
export function createAgent(options: CreateAgentOptions): AgentServices {
  const { store, clock, log, skills, variables, limitedKeys } = options;
  const processes = new Processes({ maxRunning: options.maxProcesses });
  const tools = ownTools(options, processes);
  const mcp = new McpServers(log);
  const offersMcp = options.builtInTools.toolsets.includes("mcp");
  let hasServers = false;
  const connect = async (servers: McpServersOptions, actor: string | null = null) => {
    hasServers = Object.keys(servers).length > 0;
    await mcp.use(servers);
    if (hasServers) recordServers(options, mcp.status(), actor);
  };
  let starting: Promise<void> | undefined = offersMcp
    ? connect(options.mcp.atStart()).finally(() => (starting = undefined))
    : undefined;
  const clients = new AttachedClients();
  const agent = new Agent(
    {
      ...depsOf(options),
      tools: () => (offersMcp && hasServers ? [...tools, ...mcp.tools()] : tools),
      toolsSettled: async () => {
        if (starting) await waitAtMost(clock, MCP_WAIT_MS, starting);
      },
      briefing: createBriefing({ skills, names: options.contextFiles, clock }),
      notices: () => (hasServers ? mcp.notices() : []),
      clients,
      switches: { yolo: false },
      questions: new Questions(store, clock, variables),
      grants: new Grants(store),
      ...(limitedKeys ? { keyLimits: new KeyLimits(limitedKeys, clock) } : {}),
      variables: new VariableShares(variables),
      trigger: joinTriggers(options.triggers),
    },
    { maxLiveSessions: options.maxLiveSessions },
  );
  const reload: AgentServices["reload"] = {
    env: () => variables.reload(),
    mcp: async (actor) => {
      await connect(await options.mcp.read(), actor);
      return mcp.status().map(describeServer);
    },
  };
  const commands = createCommands(options, reload);
  const status = () => (hasServers ? mcp.status() : []);
  const spawnTrees = new SpawnTrees(options.spawnTreesFolder);
  const close = async () => {
    await agent.stop();
    await Promise.all([processes.close(), mcp.close(), clients.close()]);
  };
  return { agent, commands, processes, skills, mcp: { status }, spawnTrees, reload, close };
}

/** Opens the skills of a home. With `hasBundled`, also those that come with the program. */
export function openSkills(
  options: Omit<SkillsOptions, "bundledFolder"> & { readonly hasBundled: boolean },
): Skills {
  const bundledFolder = options.hasBundled ? bundledSkillsFolder() : undefined;
  return new Skills({ ...options, bundledFolder });
}

/** Creates MCP servers that a client brings for one session. */
export function createMcpServers(log: AgentDeps["log"]): McpServers {
  return new McpServers(log);
}

/** What the agent gets as it is. */
function depsOf(options: CreateAgentOptions) {
  const { store, clock, log, engine, models, checkInput, settings, tracing, runEnded } = options;
  const telemetry = { ...(tracing ? { tracing } : {}), ...(runEnded ? { runEnded } : {}) };
  const prices = new Prices(models, clock);
  return { store, clock, log, engine, models, prices, checkInput, settings, ...telemetry };
}

/** Returns the built-in tools that no additional tool replaces, and the additional tools. */
function ownTools(
  { builtInTools, skills, tools }: CreateAgentOptions,
  processes: Processes,
): readonly Tool[] {
  const terminal = { ...builtInTools.terminal, processes };
  const builtIn = createTools({ ...builtInTools, skills, terminal });
  return [...builtIn.filter((tool) => !tools.some((other) => other.name === tool.name)), ...tools];
}

function createCommands(options: CreateAgentOptions, reload: AgentServices["reload"]): Commands {
  const { version, skills, settings } = options;
  const skillsIn = async (cwd: string) => (await skills.list(cwd)).skills;
  const service = { version, reloadEnv: reload.env, reloadMcp: () => reload.mcp(), skills: skillsIn };
  const configured = quickCommands(options.quickCommands, createRunShell(options.envPassthrough));
  const commands: Commands = new Commands(
    () => conversationCommands,
    () => sessionCommands,
    () => modelCommands,
    () => ofService,
    () => options.commands,
    () => configured,
    async (cwd = settings.workspace) => skillCommands(await skillsIn(cwd)),
  );
  const ofService = serviceCommands(service, () => commands);
  return commands;
}

/** Records for the feed how the servers stand. The servers work without it. */
function recordServers(
  { store, log }: CreateAgentOptions,
  status: readonly McpStatus[],
  actor: string | null,
): void {
  const data = { servers: status.map(({ name, status: state, tools }) => ({ name, status: state, tools })) };
  store
    .write((tx) => tx.record({ type: "mcp.updated", ref: "mcp", owner: "default", data, actor }))
    .catch((error: unknown) => log.debug("the state of the MCP servers could not be recorded", { error }));
}

function describeServer({ name, status, tools, error }: McpStatus): string {
  if (status === "failed") return `${name}: failed (${error ?? "unknown"})`;
  return `${name}: ${status}, ${tools} tool${tools === 1 ? "" : "s"}`;
}

/** How long a directory's texts stay cached, so that successive runs read the disk once. */
const FRESH_MS = 2_000;
const MAX_DIRECTORIES = 100;

interface CachedBriefing {
  readonly atMs: number;
  readonly texts: Promise<readonly string[]>;
}

/** Returns the function that describes a directory and its skills to a run. */
function createBriefing(options: {
  readonly skills: Skills;
  /** Names of context files, such as AGENTS.md. */
  readonly names: readonly string[];
  readonly clock: Clock;
}): (cwd: string) => Promise<readonly string[]> {
  const cache = new Map<string, CachedBriefing>();
  return (cwd) => {
    const nowMs = options.clock.now();
    const last = cache.get(cwd);
    if (last && nowMs - last.atMs < FRESH_MS) return last.texts;
    if (cache.size >= MAX_DIRECTORIES) cache.clear();
    const texts = brief(cwd, options);
    cache.set(cwd, { atMs: nowMs, texts });
    return texts;
  };
}
