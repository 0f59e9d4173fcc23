import type { McpServerOptions } from "../agent/mcp/connection.ts";
import type { McpServersOptions } from "../agent/mcp/servers.ts";
import { commandEnvironment } from "../exec/process-group.ts";
import type { Config, McpServerConfig, WebSearchConfig } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { AgentSettings } from "../agent/deps.ts";
import type { Skills } from "../agent/skills/skills.ts";
import type { Processes } from "../agent/tools/process/processes.ts";
import type { ToolOptions, WebOptions } from "../agent/tools/catalog.ts";
import { resolveWithin, type Environment } from "../config/home.ts";
import { resolveSecret } from "../config/secrets/reference.ts";
import type { HttpSettings } from "../http/deps.ts";

/** Where this service keeps and finds things; absolute paths. */
export interface Paths {
  readonly agentHome: string;
  readonly userHome: string;
  readonly workspace: string;
  readonly databaseUrl: string;
}

/** The configuration in the terms of each room: plain numbers with their units in the name. */
export function agentSettings(config: Config, paths: Paths): AgentSettings {
  return {
    instructions: config.agent.instructions,
    workspace: paths.workspace,
    workspaceRoots: workspaceRoots(config, paths),
    userHome: paths.userHome,
    agentHome: paths.agentHome,
    maxSteps: config.agent.max_steps,
    runTimeoutMs: config.agent.timeout_seconds * 1000,
    policyMode: config.approvals.mode,
    allowedCommands: config.approvals.allow,
    questionTimeouts: {
      approvalMs: config.approvals.timeout_seconds * 1000,
      clarifyMs: config.approvals.clarify_timeout_seconds * 1000,
      passwordMs: config.approvals.password_timeout_seconds * 1000,
    },
    onApprovalTimeout: config.approvals.on_timeout,
    whenBusy: config.sessions.when_busy,
    maxQueuePerSession: config.sessions.max_queue,
    maxConcurrentRuns: config.limits.max_concurrent_runs,
    reasoningEffort: config.model.reasoning_effort,
    fallbacks: config.model.fallbacks,
    budget: { runTokens: config.agent.run_token_budget, dayTokens: config.agent.day_token_budget },
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

/** Absolute; relative ones are relative to the home. */
export function workspaceRoots(
  { agent }: Pick<Config, "agent">,
  { agentHome, userHome }: Pick<Paths, "agentHome" | "userHome">,
): readonly string[] {
  return agent.workspace_roots.map((folder) => resolveWithin(agentHome, folder, userHome));
}

/** As {@link agentSettings}, for the HTTP surface. */
export function httpSettings(
  config: Config,
  more: {
    readonly toolsets: readonly string[];
    readonly validateResponses: boolean;
    readonly env: Environment;
  },
): HttpSettings {
  const { api_server: server, limits, retention } = config;
  const loopback = ["127.0.0.1", "localhost", "[::1]"];
  return {
    modelName: server.model_name,
    unknownModel: server.unknown_model,
    allowedHosts: [...loopback, server.host, ...server.allowed_hosts].map((host) => host.toLowerCase()),
    toolsets: more.toolsets,
    maxBodyBytes: limits.max_body_bytes,
    bodyTimeoutMs: limits.body_timeout_seconds * 1000,
    maxMessages: limits.max_messages,
    maxTextBytes: limits.max_text_bytes,
    keepaliveMs: limits.sse_keepalive_seconds * 1000,
    slowReaderMs: limits.slow_reader_seconds * 1000,
    maxSubscribersPerRun: limits.max_subscribers_per_run,
    maxReaderBytes: limits.max_reader_bytes,
    maxAnswerBytes: limits.max_answer_bytes,
    maxStoredResponses: limits.max_stored_responses,
    maxRunEvents: limits.max_run_events,
    maxConcurrentRuns: limits.max_concurrent_runs,
    maxQueuePerSession: config.sessions.max_queue,
    runTtlMs: retention.runs_hours * 3_600_000,
    eventTtlMs: Math.min(retention.events_hours ?? Infinity, retention.runs_hours) * 3_600_000,
    approvalTimeoutMs: config.approvals.timeout_seconds * 1000,
    runTimeoutMs: config.agent.timeout_seconds * 1000,
    toolItems: server.tool_items,
    showReasoning: server.show_reasoning,
    webhookSecret: webhookSecret(config, more.env),
    webhookAllowedHosts: server.webhook_allowed_hosts,
    webhookAttempts: limits.webhook_attempts,
    corsOrigins: server.cors_origins,
    validateResponses: more.validateResponses,
  };
}

/** Signs completion webhooks. ServiceError `invalid_config` for a reference to what is not set. */
export function webhookSecret({ api_server: server }: Config, env: Environment): string | undefined {
  const { webhook_secret: secret } = server;
  return secret === undefined ? undefined : resolveSecret(secret, env, "api_server.webhook_secret");
}

/** `env` is where references such as `env:NAME` are looked up. ServiceError `invalid_config` for one that is not set. */
export function toolOptions(
  config: Config,
  env: Environment,
  parts: { readonly processes: Processes; readonly skills: Skills },
): ToolOptions {
  const { web, vision } = config;
  return {
    skills: parts.skills,
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
      processes: parts.processes,
    },
  };
}

function searchOptions(search: WebSearchConfig, env: Environment): NonNullable<WebOptions["search"]> {
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

/** The servers of MCP that are enabled; a text says why one cannot be used. */
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
): McpServerOptions | string {
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
