/** The webhook receiver, built from the configuration. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { WiredAgent } from "./wire-agent.ts";
import type { Skills } from "../agent/skills/skills.ts";
import { ALL, homesOf, type Homes } from "../deliver/address.ts";
import { DirectSends } from "../deliver/outbox/direct-sends.ts";
import { platformProblems } from "../deliver/platform/platforms.ts";
import type { Targets } from "../deliver/target.ts";
import type { Log } from "../base/observe/log.ts";
import { RateLimiter } from "../base/rate-limiter.ts";
import { offTracer } from "../base/observe/trace.ts";
import type { Environment } from "../config/home.ts";
import type { Paths } from "./settings.ts";
import { Coalescer } from "../webhook/receive/coalesce.ts";
import { Deliveries } from "../webhook/deliveries/deliveries.ts";
import type { EvaluationPorts } from "../webhook/receive/evaluate.ts";
import { findDuplicate } from "../webhook/receive/dedupe.ts";
import {
  listFilePath,
  readListFile,
  fileState,
  readSubscriptionsText,
  subscriptionsPath,
} from "../webhook/routes/files.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import { WebhookRoutes } from "../webhook/routes/routes.ts";
import { createRunScript, createLoadSkill } from "../webhook/receive/script.ts";
import { requireUsableRoutes, routeDefaults } from "../webhook/routes/route.ts";
import { webhookSettings, type WebhookSettings } from "../webhook/settings.ts";

interface WiredWebhook {
  readonly deps: WebhookDeps;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** Wires the receiver and its routes. ServiceError `invalid_config` names the invalid routes. */
export function wireWebhook(
  { config, env, paths }: { readonly config: Config; readonly env: Environment; readonly paths: Paths },
  {
    agent,
    skills,
    targets,
    metrics = {},
  }: Pick<WiredAgent, "agent" | "skills"> & {
    readonly targets: Targets;
    /** Absent or empty: metrics are off. */
    readonly metrics?: Pick<WebhookDeps, "metrics">;
  },
): WiredWebhook {
  const settings = webhookSettings(config);
  const from = { env };
  const homes = homesOf(targets);
  const { store, clock, log } = agent.deps;
  const file = subscriptionsPath(paths.agentHome);
  const routes = new WebhookRoutes({
    routes: requireUsableRoutes(config, from),
    defaults: routeDefaults(settings, from),
    file: { state: () => fileState(file), text: () => readSubscriptionsText(file) },
    platformProblems: (names) => findProblems(names, { config, env, homes }),
    clock,
    log,
  });
  const sends = new DirectSends({
    targets,
    clock,
    tracer: offTracer,
    store,
    retryDelaysMs: config.delivery.retry_seconds.map((seconds) => seconds * 1000),
  });
  const deps: WebhookDeps = {
    store,
    clock,
    log,
    routes,
    runs: agent.runs,
    rate: new RateLimiter(settings.rateLimit),
    deliveries: new Deliveries(store, log),
    coalescer: new Coalescer({ store, runs: agent.runs, clock, log }),
    ports: {
      findDuplicate: (name) => findDuplicate(store, { ...name, nowMs: clock.now() }),
      ...createEvaluationPorts({ config, env, paths }, { skills, log }),
    },
    homes,
    send: (row, timeoutMs) => sends.send(row, timeoutMs),
    record: (tx, row, end) => sends.record(tx, row, end),
    toolsets: () => [...config.agent.toolsets, ...agent.deps.tools().map(({ toolset }) => toolset)],
    owner: "default",
    maxBodyBytes: settings.maxBodyBytes,
    bodyTimeoutMs: 10_000,
    ...metrics,
  };
  return { deps, settings, sends };
}

async function findProblems(
  names: readonly string[],
  { config, env, homes }: { readonly config: Config; readonly env: Environment; readonly homes: Homes },
): Promise<readonly string[]> {
  const problems = await platformProblems(names, config, env);
  const isAllEmpty = names.includes(ALL) && homes.size === 0;
  return isAllEmpty ? ["deliver: all has no targets: no platform has a home_channel", ...problems] : problems;
}

/** Returns what the stages of the pipeline need from the machine. The store answers `knownAs` itself. */
export function createEvaluationPorts(
  { config, env, paths }: { readonly config: Config; readonly env: Environment; readonly paths: Paths },
  { skills, log }: { readonly skills: Pick<Skills, "find">; readonly log: Log },
): Omit<EvaluationPorts, "findDuplicate"> {
  const { scriptTimeoutMs } = webhookSettings(config);
  return {
    valuesIn: (path) =>
      readListFile(listFilePath(path, { home: paths.agentHome, userHome: paths.userHome, env })),
    runScript: createRunScript({
      folder: join(paths.agentHome, "scripts"),
      timeoutMs: scriptTimeoutMs,
      envPassthrough: config.terminal.env_passthrough,
      log,
    }),
    loadSkill: createLoadSkill({ skills, cwd: paths.workspace, log }),
    warn: (problem) => log.warn("a filter is invalid", { problem }),
  };
}
