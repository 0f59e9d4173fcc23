/** The receiver of webhooks, built from the configuration. */
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
import { knownDelivery } from "../webhook/receive/dedupe.ts";
import { listFilePath, readListFile } from "../webhook/routes/list-file.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import { WebhookRoutes } from "../webhook/routes/routes.ts";
import { createRunScript } from "../webhook/receive/script.ts";
import { createLoadSkill } from "../webhook/receive/skill.ts";
import { requireUsableRoutes, routeDefaults } from "../webhook/routes/static-routes.ts";
import { fileState, readSubscriptionsText, subscriptionsPath } from "../webhook/routes/subscriptions.ts";
import { webhookSettings, type WebhookSettings } from "../webhook/settings.ts";

export interface WiredWebhook {
  readonly deps: WebhookDeps;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** Undefined when the receiver is not enabled. ServiceError `invalid_config` that says what is wrong with which route. */
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
): WiredWebhook | undefined {
  const settings = webhookSettings(config);
  if (!settings.isEnabled) return undefined;
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
      knownAs: (name) => knownDelivery(store, { ...name, nowMs: clock.now() }),
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
  const nowhere = names.includes(ALL) && homes.size === 0;
  const problems = await platformProblems(names, config, env);
  return nowhere ? ["All goes nowhere: no platform has a home_channel", ...problems] : problems;
}

/** What the stages of the pipeline need of the machine; whether a delivery is known is asked of the store. */
export function createEvaluationPorts(
  { config, env, paths }: { readonly config: Config; readonly env: Environment; readonly paths: Paths },
  { skills, log }: { readonly skills: Pick<Skills, "find">; readonly log: Log },
): Omit<EvaluationPorts, "knownAs"> {
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
    warn: (problem) => log.warn("a filter cannot be used", { problem }),
  };
}
