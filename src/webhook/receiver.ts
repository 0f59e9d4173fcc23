/** The webhook receiver, built from the configuration. */
import type { H3 } from "h3";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Agent } from "../agent/agent.ts";
import { offTracer } from "../base/observe.ts";
import { RateLimiter } from "../base/time.ts";
import type { Environment } from "../config/home.ts";
import { ALL, homesOf, type Homes } from "../deliver/address.ts";
import { DirectSends } from "../deliver/outbox/attempt.ts";
import { platformProblems } from "../deliver/platform/platforms.ts";
import type { Targets } from "../deliver/target.ts";
import { Deliveries } from "./deliveries/deliveries.ts";
import type { WebhookDeps } from "./deps.ts";
import { Coalescer } from "./receive/coalesce.ts";
import { createFindDuplicate } from "./receive/event.ts";
import { createEvaluationPorts, type PortOptions } from "./receive/ports.ts";
import { createWebhookApp } from "./receive/receive.ts";
import { requireUsableRoutes, routeDefaults, webhookSettings, type WebhookSettings } from "./routes/route.ts";
import { WebhookRoutes } from "./routes/routes.ts";
import {
  fileState,
  keepVerificationToken,
  readSubscriptionsText,
  subscriptionsPath,
} from "./routes/subscriptions.ts";

export interface Receiver {
  readonly app: H3;
  readonly deps: WebhookDeps;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** Builds the receiver and its routes. ServiceError `invalid_config` names the invalid routes. */
export function createReceiver(
  { config, env, paths }: Pick<PortOptions, "config" | "env" | "paths">,
  {
    agent,
    skills,
    targets,
    metrics = {},
  }: {
    readonly agent: Agent;
    readonly skills: PortOptions["skills"];
    readonly targets: Targets;
    /** Absent or empty: metrics are off. */
    readonly metrics?: Pick<WebhookDeps, "metrics">;
  },
): Receiver {
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
      findDuplicate: createFindDuplicate({ store, clock }),
      ...createEvaluationPorts({ config, env, paths, skills, log }),
    },
    homes,
    send: (row, timeoutMs) => sends.send(row, timeoutMs),
    record: (tx, row, end) => sends.record(tx, row, end),
    keepVerificationToken: (route, token) => keepVerificationToken(paths.agentHome, route, token),
    toolsets: () => toolsetNames(config, agent),
    maxBodyBytes: settings.maxBodyBytes,
    bodyTimeoutMs: 10_000,
    ...metrics,
  };
  return { app: createWebhookApp(deps), deps, settings, sends };
}

/** Returns the names of all toolsets, including those of MCP servers and embedders. */
export function toolsetNames(config: Config, agent: Agent): readonly string[] {
  return [...config.agent.toolsets, ...agent.deps.tools().map(({ toolset }) => toolset)];
}

/** Returns what keeps the named platforms from sending, a sentence each without its full stop. */
export async function findProblems(
  names: readonly string[],
  { config, env, homes }: { readonly config: Config; readonly env: Environment; readonly homes: Homes },
): Promise<readonly string[]> {
  const problems = await platformProblems(names, config, env);
  const isAllEmpty = names.includes(ALL) && homes.size === 0;
  return isAllEmpty ? ["deliver: all has no targets: no platform has a home_channel", ...problems] : problems;
}
