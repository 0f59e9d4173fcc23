import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import { Agent } from "../agent/agent.ts";
import { Questions } from "../agent/question/questions.ts";
import { Commands } from "../agent/commands/command.ts";
import { createBriefing } from "../agent/context/briefing.ts";
import { conversationCommands } from "../agent/commands/conversation.ts";
import { modelCommands } from "../agent/commands/model.ts";
import { quickCommands, skillCommands } from "../agent/commands/quick.ts";
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
import { bundledSkillsFolder } from "../agent/skills/bundled.ts";
import { Skills } from "../agent/skills/skills.ts";
import { joinTriggers } from "../agent/notify/run-trigger.ts";
import { SpawnTrees } from "../agent/subagent/spawn-tree.ts";
import { Processes } from "../agent/tools/process/processes.ts";
import { createRunShell } from "../agent/commands/run-shell.ts";
import { createTools } from "../agent/tools/catalog.ts";
import type { Tool } from "../agent/tool/tool.ts";
import type { Clock } from "../base/clock.ts";
import { cronCommand } from "../cron/tool/command.ts";
import { RunEnds } from "../cron/run/run-ends.ts";
import { createCronjob } from "../cron/tool/tool.ts";
import { createCronTrigger } from "../cron/run/trigger.ts";
import { createWebhookTrigger } from "../webhook/deliveries/trigger.ts";
import type { Log } from "../base/observe/log.ts";
import { checkToolInput } from "./check-input.ts";
import { createJobService } from "./job-service.ts";
import { resolveWithin, type Environment } from "../config/home.ts";
import type { Variables } from "../config/variables.ts";
import { agentSettings, mcpServerOptions, toolOptions, type Paths } from "./settings.ts";
import type { Store } from "../store/store.ts";

export interface WireAgentOptions {
  readonly config: Config;
  readonly paths: Paths;
  readonly models: ModelCatalog;
  readonly engine: Engine;
  /** Tools besides the built-in ones; one of the same name replaces a built-in one. */
  readonly tools?: readonly Tool[];
  /** Where references such as `env:NAME` are looked up. */
  readonly env: Environment;
  readonly variables: Variables;
  /** Reads the configuration again, for what can be reloaded. Absent: it stays as it is. */
  readonly readConfig?: () => Promise<Config>;
  readonly version: string;
  readonly log: Log;
  /** Absent: nobody comes by a key. */
  readonly keyLimits?: KeyLimits;
  /** Absent: runs are neither traced nor counted. */
  readonly telemetry?: Pick<AgentDeps, "tracing" | "runEnded">;
}

/** The agent, its commands, and how both end. */
export interface WiredAgent {
  readonly agent: Agent;
  readonly commands: Commands;
  /** What commands run in the background. */
  readonly processes: Processes;
  readonly skills: Skills;
  readonly mcp: McpServers;
  readonly spawnTrees: SpawnTrees;
  /** Tells of the ends of scheduled runs in this process. */
  readonly cronEnds: RunEnds;
  readonly reload: {
    /** Reads the `.env` file again. Resolves to how many variables changed. */
    env(): Promise<number>;
    /** Connects the MCP servers that the configuration names now. Resolves to a line for each. */
    mcp(): Promise<readonly string[]>;
  };
  /** Ends what the agent's tools hold: processes, servers. After the turns were drained. */
  close(): Promise<void>;
}

/** Builds the agent room from the configuration. ServiceError `invalid_config`. */
export function wireAgent(options: WireAgentOptions, store: Store, clock: Clock): WiredAgent {
  const { config, paths, engine, models, log, variables, version, tools: extra = [] } = options;
  const processes = new Processes({ maxRunning: config.terminal.max_background });
  const skills = createSkills(config, paths);
  const service = createJobService(options, { store, clock, models, tools: () => agent.deps.tools() });
  const set = toolOptions(config, options.env, { processes, skills });
  const builtIn = createTools({ ...set, cron: [createCronjob(service)] });
  const tools: readonly Tool[] = [
    ...builtIn.filter((tool) => !extra.some((other) => other.name === tool.name)),
    ...extra,
  ];
  const mcp = new McpServers(log);
  const useMcp = (current: Config) => mcp.use(mcpServerOptions(current, options.env, paths));
  const offersMcp = config.agent.toolsets.includes("mcp");
  let starting: Promise<void> | undefined = offersMcp
    ? useMcp(config).finally(() => (starting = undefined))
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
        if (starting) await Promise.race([starting, clock.sleep(MCP_PATIENCE_MS)]);
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
      await useMcp(await (options.readConfig?.() ?? config));
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
    () => [cronCommand(service)],
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

/** The skills that the configuration allows. */
export function createSkills(
  config: Pick<Config, "skills" | "platforms">,
  { agentHome, userHome }: Pick<Paths, "agentHome" | "userHome">,
): Skills {
  return new Skills({
    homeFolder: join(agentHome, "skills"),
    folders: config.skills.folders.map((folder) => resolveWithin(agentHome, folder, userHome)),
    // All that is bundled is about webhooks: elsewhere it would only take room in the instructions.
    bundledFolder: config.platforms.webhook.enabled ? bundledSkillsFolder() : undefined,
    disabled: config.skills.disabled,
  });
}

/** The first turns wait so long for servers that are starting; tools that come later are there at the next turn. */
const MCP_PATIENCE_MS = 2_000;

function describeMcp({ name, status, tools, error }: McpStatus): string {
  if (status === "failed") return `${name}: failed (${error ?? "unknown"})`;
  return `${name}: ${status}, ${tools} tool${tools === 1 ? "" : "s"}`;
}
