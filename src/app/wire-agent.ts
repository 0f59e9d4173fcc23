/** Builds the agent from the configuration, with what the cron and webhook modules add to it. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Engine } from "../agent/engine.ts";
import type { Tool } from "../agent/tool/tool.ts";
import type { ModelCatalog } from "../agent/model.ts";
import type { Clock } from "../base/time.ts";
import { cronCommand, createCronjob } from "../cron/tool/tool.ts";
import { type JobService, cronSettings } from "../cron/deps.ts";
import { RunEnds, createCronTrigger } from "../cron/run/end.ts";
import { createWebhookTrigger } from "../webhook/deliveries/deliveries.ts";
import type { Log } from "../base/observe.ts";
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
import type { SandboxService } from "../exec/sandbox/service.ts";
import type { Store } from "../store/store.ts";
import { createAgent, type AgentServices, type CreateAgentOptions, openSkills } from "../agent/create.ts";

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
  /** Absent: commands run without a sandbox. */
  readonly sandbox?: SandboxService;
  /** Absent: no client uses a key. */
  readonly limitedKeys?: CreateAgentOptions["limitedKeys"];
  /** False: MCP servers are not connected. Default true. */
  readonly connectsMcp?: boolean;
  /** Absent: runs are neither traced nor counted. */
  readonly telemetry?: Pick<CreateAgentOptions, "tracing" | "runEnded">;
}

/** The agent with its services, and the ends of scheduled runs. */
export interface WiredAgent extends AgentServices {
  /** Notifies of scheduled runs that end in this process. */
  readonly cronEnds: RunEnds;
}

/** Creates the agent of the configuration, with scheduled jobs and webhooks. ServiceError `invalid_config`. */
export function wireAgent(options: WireAgentOptions, store: Store, clock: Clock): WiredAgent {
  const { config, paths, engine, models, log, variables, version, tools = [] } = options;
  const jobs = createJobService(options, { store, clock, models, tools: () => services.agent.deps.tools() });
  const cronEnds = new RunEnds();
  const serversOf = (current: Config) => mcpServerOptions(current, options.env, paths);
  const services = createAgent({
    store,
    clock,
    log,
    engine,
    models,
    variables,
    version,
    tools,
    checkInput: checkToolInput,
    settings: { ...agentSettings(config, paths), isSandboxed: options.sandbox?.isActive ?? false },
    maxLiveSessions: config.sessions.max_live,
    maxProcesses: config.terminal.max_background,
    contextFiles: config.agent.context_files,
    skills: createSkills(config, paths),
    spawnTreesFolder: join(paths.agentHome, "spawn-trees"),
    builtInTools: builtInTools(options, jobs),
    mcp: {
      atStart: () => (options.connectsMcp === false ? {} : serversOf(config)),
      read: async () => serversOf(await (options.readConfig?.() ?? config)),
    },
    commands: [cronCommand(jobs)],
    quickCommands: config.quick_commands,
    envPassthrough: config.terminal.env_passthrough,
    triggers: [createCronTrigger({ store, ends: cronEnds }), createWebhookTrigger({ store, log })],
    ...(options.limitedKeys ? { limitedKeys: options.limitedKeys } : {}),
    ...options.telemetry,
  });
  return { ...services, cronEnds };
}

function builtInTools({ config, env, sandbox }: WireAgentOptions, jobs: JobService) {
  const options = toolOptions(config, env);
  const terminal = { ...options.terminal, ...(sandbox ? { sandbox } : {}) };
  return { ...options, terminal, cron: [createCronjob(jobs)] };
}

/** Returns the skills that the configuration allows. */
export function createSkills(
  config: Pick<Config, "skills" | "platforms">,
  { agentHome, userHome }: Pick<Paths, "agentHome" | "userHome">,
): AgentServices["skills"] {
  return openSkills({
    homeFolder: join(agentHome, "skills"),
    folders: config.skills.folders.map((folder) => resolveWithin(agentHome, folder, userHome)),
    // The bundled skills are about webhooks. Elsewhere they would only lengthen the instructions.
    hasBundled: config.platforms.webhook.enabled,
    disabled: config.skills.disabled,
  });
}

/** Returns what the cronjob tool and `/cron` work with. */
export function createJobService(
  { config, paths }: { readonly config: Config; readonly paths: Paths },
  deps: Pick<JobService, "store" | "clock" | "models"> & { readonly tools: () => readonly Tool[] },
): JobService {
  const { store, clock, models, tools } = deps;
  return {
    store,
    clock,
    models,
    settings: cronSettings(config),
    toolsets: { configured: [], tools },
    workspace: paths.workspace,
    workspaceRoots: workspaceRoots(config, paths),
    scriptsFolder: join(paths.agentHome, "scripts"),
    outputFolder: cronOutputFolder(paths),
  };
}
