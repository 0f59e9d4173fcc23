import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { commandEnvironment } from "../exec/process-group.ts";
import type { SandboxOptions } from "../exec/sandbox/service.ts";
import type { Config, McpServerConfig, WebSearchConfig } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { resolveWithin, type Environment, resolveSecret } from "../config/home.ts";
import type { CreateAgentOptions } from "../agent/create.ts";

type AgentSettings = CreateAgentOptions["settings"];
type ToolOptions = CreateAgentOptions["builtInTools"];
type McpServersOptions = ReturnType<CreateAgentOptions["mcp"]["atStart"]>;

/** The absolute paths that a service works with. */
export interface Paths {
  readonly agentHome: string;
  readonly userHome: string;
  readonly workspace: string;
  readonly databaseUrl: string;
}

/** Returns the settings of approvals and questions, which apply from the next use on when they change. */
export function approvalSettings({ approvals }: Pick<Config, "approvals">) {
  return {
    policyMode: approvals.mode,
    allowedCommands: approvals.allow,
    questionTimeouts: {
      approvalMs: approvals.timeout_seconds * 1000,
      clarifyMs: approvals.clarify_timeout_seconds * 1000,
      passwordMs: approvals.password_timeout_seconds * 1000,
    },
    onApprovalTimeout: approvals.on_timeout,
  };
}

/** Returns the settings of the agent: the configuration with absolute paths and times in milliseconds. */
export function agentSettings(config: Config, paths: Paths): AgentSettings {
  return {
    instructions: config.agent.instructions,
    workspace: paths.workspace,
    workspaceRoots: workspaceRoots(config, paths),
    userHome: paths.userHome,
    agentHome: paths.agentHome,
    maxSteps: config.agent.max_steps,
    runTimeoutMs: config.agent.timeout_seconds * 1000,
    ...approvalSettings(config),
    whenBusy: config.sessions.when_busy,
    maxQueuePerSession: config.sessions.max_queue,
    maxConcurrentRuns: config.limits.max_concurrent_runs,
    reasoningEffort: config.model.reasoning_effort,
    fallbacks: config.model.fallbacks,
    budget: {
      runTokens: config.agent.run_token_budget,
      dayTokens: config.agent.day_token_budget,
      dayCostUsd: config.agent.day_cost_budget,
      unpriced: config.agent.unpriced,
    },
    compression: {
      threshold: config.compression.enabled ? config.compression.threshold : undefined,
      keepMessages: config.compression.keep_messages,
      model: config.compression.model,
    },
    delegation: {
      maxDepth: config.delegation.max_depth,
      maxConcurrent: config.delegation.max_concurrent,
      maxTasks: config.delegation.max_tasks,
      maxSteps: config.delegation.max_steps,
      tokenBudget: config.delegation.token_budget,
      model: config.delegation.model,
    },
    titles: config.sessions.titles,
  };
}

/** Returns the absolute paths of `agent.workspace_roots`. Relative ones are relative to the home. */
export function workspaceRoots(
  { agent }: Pick<Config, "agent">,
  { agentHome, userHome }: Pick<Paths, "agentHome" | "userHome">,
): readonly string[] {
  return agent.workspace_roots.map((folder) => resolveWithin(agentHome, folder, userHome));
}

/** Returns the folder of the kept outputs of scheduled jobs. */
export function cronOutputFolder({ agentHome }: Pick<Paths, "agentHome">): string {
  return join(agentHome, "cron", "output");
}

/** Returns the secret that signs completion webhooks. ServiceError `invalid_config` for a reference to a variable that is not set. */
export function webhookSecret({ api_server: server }: Config, env: Environment): string | undefined {
  const { webhook_secret: secret } = server;
  return secret === undefined ? undefined : resolveSecret(secret, env, "api_server.webhook_secret");
}

/**
 * Returns the options of the built-in tools. References such as `env:NAME` are resolved in `env`. ServiceError
 * `invalid_config` for a variable that is not set.
 */
export function toolOptions(config: Config, env: Environment): ToolOptions {
  const { web, vision } = config;
  return {
    vision: { maxBytes: vision.max_bytes, ...(vision.model === undefined ? {} : { model: vision.model }) },
    web: {
      timeoutMs: web.timeout_seconds * 1000,
      maxBytes: web.max_bytes,
      allowedPrivateHosts: web.allowed_private_hosts,
      ...(web.search ? { search: searchOptions(web.search, env) } : {}),
    },
    toolsets: config.agent.toolsets,
    terminal: {
      timeoutMs: config.terminal.timeout_seconds * 1000,
      maxOutputBytes: config.terminal.max_output_bytes,
      envPassthrough: config.terminal.env_passthrough,
    },
  };
}

function searchOptions(search: WebSearchConfig, env: Environment): NonNullable<ToolOptions["web"]["search"]> {
  const { provider, base_url: baseUrl, api_key: key } = search;
  const needed = provider === "searxng" ? "base_url" : "api_key";
  if (search[needed] === undefined) {
    throw new ServiceError("invalid_config", `web.search.${needed} is required for ${provider}.`, {
      param: `web.search.${needed}`,
    });
  }
  return {
    provider,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(key === undefined ? {} : { apiKey: resolveSecret(key, env, "web.search.api_key") }),
  };
}

/** Returns what the sandbox allows. Skills stay readable: commands run their scripts. */
export function sandboxOptions(config: Config, paths: Paths, searchPath: string): SandboxOptions {
  const { terminal, web, skills } = config;
  const resolve = (path: string) => resolveWithin(paths.agentHome, path, paths.userHome);
  return {
    setting: terminal.sandbox,
    hosts: terminal.sandbox_hosts,
    allowedPrivateHosts: web.allowed_private_hosts,
    limits: {
      maxProcesses: terminal.sandbox_max_processes,
      maxMemoryBytes: terminal.sandbox_max_memory_mb * 1_048_576,
    },
    folders: {
      home: paths.agentHome,
      userHome: paths.userHome,
      readableInHome: [join(paths.agentHome, "skills"), ...skills.folders.map(resolve)],
      writable: terminal.sandbox_writable.map(resolve),
      readable: terminal.sandbox_readable.map(resolve),
      // The database may be outside the home.
      hidden: [...terminal.sandbox_hidden.map(resolve), ...databaseFiles(paths.databaseUrl)],
      searchPath,
    },
  };
}

function databaseFiles(url: string): readonly string[] {
  const file = url.startsWith("file:") ? fileURLToPath(url) : url;
  return isAbsolute(file) ? ["", "-wal", "-shm"].map((suffix) => `${file}${suffix}`) : [];
}

/** Returns the options of each enabled MCP server, or a text that says why it cannot be used. */
export function mcpServerOptions(config: Config, env: Environment, paths: Paths): McpServersOptions {
  const { servers, start_timeout_seconds: startSeconds } = config.mcp;
  const enabled = Object.entries(servers).filter(([, server]) => server.enabled);
  return Object.fromEntries(
    enabled.map(([name, server]) => [
      name,
      mcpServer(`mcp.servers.${name}`, server, { startSeconds, env, paths }),
    ]),
  );
}

function mcpServer(
  path: string,
  server: McpServerConfig,
  {
    startSeconds,
    env,
    paths,
  }: { readonly startSeconds: number; readonly env: Environment; readonly paths: Paths },
): McpServersOptions[string] {
  const { command, url, args = [], cwd, tools, timeout_seconds: seconds } = server;
  const limits = {
    startTimeoutMs: startSeconds * 1000,
    timeoutMs: seconds * 1000,
    ...(tools === undefined ? {} : { tools }),
  };
  try {
    if (command !== undefined && url === undefined) {
      const own = resolveAll(server.env ?? {}, env, `${path}.env`);
      const where = cwd === undefined ? paths.workspace : resolveWithin(paths.agentHome, cwd, paths.userHome);
      return { ...limits, command, args, env: { ...commandEnvironment([], {}), ...own }, cwd: where };
    }
    if (url !== undefined && command === undefined) {
      return { ...limits, url, headers: resolveAll(server.headers ?? {}, env, `${path}.headers`) };
    }
  } catch (error) {
    if (error instanceof ServiceError) return error.message;
    throw error;
  }
  return `${path} needs either command or url`;
}

function resolveAll(
  values: Readonly<Record<string, string>>,
  env: Environment,
  path: string,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, resolveSecret(value, env, `${path}.${name}`)]),
  );
}
