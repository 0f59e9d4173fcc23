import { waitAtMost } from "../base/deadline.ts";
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import { Agent } from "../agent/agent.ts";
import { Questions } from "../agent/question/questions.ts";
import { Commands } from "../agent/commands/command.ts";
import { createBriefing } from "../agent/context/briefing.ts";
import { conversationCommands } from "../agent/commands/conversation.ts";
import { modelCommands } from "../agent/commands/model.ts";
import { createRunShell, quickCommands, skillCommands } from "../agent/commands/quick.ts";
import { serviceCommands } from "../agent/commands/service.ts";
import { sessionCommands } from "../agent/commands/session.ts";
import type { Engine } from "../agent/engine.ts";
import { Grants } from "../agent/question/grants.ts";
import type { KeyLimits } from "../agent/run/concurrency.ts";
import type { McpStatus } from "../agent/mcp/connection.ts";
import { McpServers } from "../agent/mcp/servers.ts";
import type { ModelCatalog } from "../agent/model.ts";
import type { AgentDeps } from "../agent/deps.ts";
import { AttachedClients, VariableShares } from "../agent/session/live-sessions.ts";
import { bundledSkillsFolder, Skills } from "../agent/skills/skills.ts";
import { joinTriggers } from "../agent/notify/run-trigger.ts";
import { SpawnTrees } from "../agent/subagent/spawn-tree.ts";
import { Processes } from "../agent/tools/process/processes.ts";
import { createTools } from "../agent/tools/catalog.ts";
import type { Tool } from "../agent/tool/tool.ts";
import type { Clock } from "../base/clock.ts";
import { cronCommand, createCronjob } from "../cron/tool/tool.ts";
import { RunEnds, createCronTrigger } from "../cron/run/trigger.ts";
import { createWebhookTrigger } from "../webhook/deliveries/trigger.ts";
import type { Log } from "../base/observe/log.ts";
import { checkToolInput } from "./models.ts";
import { resolveWithin, type Environment } from "../config/home.ts";
import type { Variables } from "../config/variables.ts";
import {
  cronOutputFolder,
  agentSettings,
  mcpServerOptions,
  toolOptions,
  type Paths,
  workspaceRoots,
} from "./settings.ts";
import type { Store } from "../store/store.ts";
import { cronSettings } from "../cron/settings.ts";
import type { JobService } from "../cron/tool/job-service.ts";

export interface WireAgentOptions {
  readonly config: Config;
  readonly paths: Paths;
  readonly models: ModelCatalog;
  readonly engine: Engine;
  /** Additional tools. One with the name of a built-in tool replaces it. */
  readonly tools?: readonly Tool[];
  /** References such as `env:NAME` are resolved here. */
  readonly env: Environment;
  readonly variables: Variables;
  /** Reads the configuration again for a reload. Absent: a reload uses `config`. */
  readonly readConfig?: () => Promise<Config>;
  readonly version: string;
  readonly log: Log;
  /** Absent: no client uses a key. */
  readonly keyLimits?: KeyLimits;
  /** Absent: runs are neither traced nor counted. */
  readonly telemetry?: Pick<AgentDeps, "tracing" | "runEnded">;
}

/** The agent with its commands, tools and skills. */
export interface WiredAgent {
  readonly agent: Agent;
  readonly commands: Commands;
  /** The background processes of the terminal tool. */
  readonly processes: Processes;
  readonly skills: Skills;
  readonly mcp: McpServers;
  readonly spawnTrees: SpawnTrees;
  /** Notifies of scheduled runs that end in this process. */
  readonly cronEnds: RunEnds;
  readonly reload: {
    /** Reads the `.env` file again. Resolves to the number of changed variables. */
    env(): Promise<number>;
    /** Reads the configuration again and connects its MCP servers. Resolves to a status line for each. */
    mcp(): Promise<readonly string[]>;
  };
  /** Ends background processes and MCP servers. Call it after the runs are drained. */
  close(): Promise<void>;
}

/** Builds the agent from the configuration. ServiceError `invalid_config`. */
export function wireAgent(options: WireAgentOptions, store: Store, clock: Clock): WiredAgent {
  const { config, paths, engine, models, log, variables, version, tools: extra = [] } = options;
  const processes = new Processes({ maxRunning: config.terminal.max_background });
  const skills = createSkills(config, paths);
  const jobs = createJobService(options, { store, clock, models, tools: () => agent.deps.tools() });
  const builtInOptions = toolOptions(config, options.env, { processes, skills });
  const builtIn = createTools({ ...builtInOptions, cron: [createCronjob(jobs)] });
  const tools: readonly Tool[] = [
    ...builtIn.filter((tool) => !extra.some((other) => other.name === tool.name)),
    ...extra,
  ];
  const mcp = new McpServers(log);
  const connectMcp = (current: Config) => mcp.use(mcpServerOptions(current, options.env, paths));
  const offersMcp = config.agent.toolsets.includes("mcp");
  let starting: Promise<void> | undefined = offersMcp
    ? connectMcp(config).finally(() => (starting = undefined))
    : undefined;
  const hosts = new AttachedClients();
  const cronEnds = new RunEnds();
  const agent: Agent = new Agent(
    {
      store,
      clock,
      log,
      engine,
      models,
      tools: () => (offersMcp ? [...tools, ...mcp.tools()] : tools),
      toolsSettled: async () => {
        if (starting) await waitAtMost(clock, MCP_WAIT_MS, starting);
      },
      briefing: createBriefing({ skills, names: config.agent.context_files, clock }),
      notices: () => mcp.notices(),
      clients: hosts,
      switches: { yolo: false },
      questions: new Questions(store, clock, variables),
      grants: new Grants(store),
      ...(options.keyLimits ? { keyLimits: options.keyLimits } : {}),
      variables: new VariableShares(variables),
      checkInput: checkToolInput,
      settings: agentSettings(config, paths),
      trigger: joinTriggers([
        createCronTrigger({ store, ends: cronEnds }),
        createWebhookTrigger({ store, log }),
      ]),
      ...options.telemetry,
    },
    { maxLiveSessions: config.sessions.max_live },
  );
  const reload: WiredAgent["reload"] = {
    env: () => variables.reload(),
    mcp: async () => {
      await connectMcp(await (options.readConfig?.() ?? config));
      return mcp.status().map(describeMcp);
    },
  };
  const commands: Commands = new Commands(
    () => conversationCommands,
    () => sessionCommands,
    () => modelCommands,
    () =>
      serviceCommands(
        {
          version,
          reloadEnv: reload.env,
          reloadMcp: reload.mcp,
          skills: async (cwd) => (await skills.list(cwd)).skills,
        },
        () => commands,
      ),
    () => [cronCommand(jobs)],
    () => quickCommands(config.quick_commands, createRunShell(config.terminal.env_passthrough)),
    async (cwd = paths.workspace) => skillCommands((await skills.list(cwd)).skills),
  );
  const spawnTrees = new SpawnTrees(join(paths.agentHome, "spawn-trees"));
  const close = async () => {
    await agent.stop();
    await Promise.all([processes.close(), mcp.close(), hosts.close()]);
  };
  return { agent, commands, processes, skills, mcp, spawnTrees, cronEnds, reload, close };
}

/** Returns the skills that the configuration allows. */
export function createSkills(
  config: Pick<Config, "skills" | "platforms">,
  { agentHome, userHome }: Pick<Paths, "agentHome" | "userHome">,
): Skills {
  return new Skills({
    homeFolder: join(agentHome, "skills"),
    folders: config.skills.folders.map((folder) => resolveWithin(agentHome, folder, userHome)),
    // The bundled skills are about webhooks. Elsewhere they would only lengthen the instructions.
    bundledFolder: config.platforms.webhook.enabled ? bundledSkillsFolder() : undefined,
    disabled: config.skills.disabled,
  });
}

/** How long a run waits for MCP servers that are starting. The next run gets the tools that arrive later. */
const MCP_WAIT_MS = 2_000;

function describeMcp({ name, status, tools, error }: McpStatus): string {
  if (status === "failed") return `${name}: failed (${error ?? "unknown"})`;
  return `${name}: ${status}, ${tools} tool${tools === 1 ? "" : "s"}`;
}

/** Returns what the cronjob tool and `/cron` work with. */
export function createJobService(
  { config, paths }: { readonly config: Config; readonly paths: Paths },
  deps: Pick<AgentDeps, "store" | "clock" | "models" | "tools">,
): JobService {
  const { store, clock, models, tools } = deps;
  return {
    store,
    clock,
    models,
    settings: cronSettings(config),
    toolsets: () => [...new Set(tools().map(({ toolset }) => toolset))],
    workspace: paths.workspace,
    workspaceRoots: workspaceRoots(config, paths),
    scriptsFolder: join(paths.agentHome, "scripts"),
    outputFolder: cronOutputFolder(paths),
  };
}
