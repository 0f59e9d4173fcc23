/** The job scheduler, built from the configuration. Loads on demand: most processes that share the store run no jobs. */
import { createScheduler, type Ticker } from "../cron/tick/ticker.ts";
import type { WiredService, CoreOptions } from "./wire.ts";
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { WiredAgent } from "./wire-agent.ts";
import { type CronDeps, cronSettings } from "../cron/deps.ts";
import { homesOf } from "../deliver/address.ts";
import type { Targets } from "../deliver/target.ts";
import { cronOutputFolder, type Paths } from "./settings.ts";

/** Returns a scheduler that has not started. */
export function createCronScheduler(
  options: Pick<CoreOptions, "config" | "paths">,
  { wiredAgent, targets, telemetry }: Pick<WiredService, "wiredAgent" | "targets" | "telemetry">,
): Ticker {
  return createScheduler({ ...wireCron(options, { ...wiredAgent, targets }), ...telemetry.cron });
}

function wireCron(
  { config, paths }: { readonly config: Config; readonly paths: Paths },
  {
    agent,
    skills,
    cronEnds,
    targets,
  }: Pick<WiredAgent, "agent" | "skills" | "cronEnds"> & { readonly targets: Targets },
): CronDeps {
  const { store, clock, log, models } = agent.deps;
  return {
    store,
    clock,
    log,
    runs: agent.runs,
    models,
    fallbacks: config.model.fallbacks,
    skills,
    settings: cronSettings(config),
    homes: homesOf(targets),
    toolsets: { configured: config.agent.toolsets, tools: agent.deps.tools },
    workspace: paths.workspace,
    scriptsFolder: join(paths.agentHome, "scripts"),
    outputFolder: cronOutputFolder(paths),
    envPassthrough: config.terminal.env_passthrough,
    ends: cronEnds,
  };
}
