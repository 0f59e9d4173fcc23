/** The scheduler, built from the configuration. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { WiredAgent } from "./wire-agent.ts";
import type { CronDeps } from "../cron/deps.ts";
import { cronSettings } from "../cron/settings.ts";
import { homesOf } from "../deliver/address.ts";
import type { Targets } from "../deliver/target.ts";
import type { Paths } from "./settings.ts";

export function wireCron(
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
    // Those that are configured count while their servers are still starting, or have no tools yet.
    toolsets: () => [
      ...new Set([...config.agent.toolsets, ...agent.deps.tools().map(({ toolset }) => toolset)]),
    ],
    workspace: paths.workspace,
    scriptsFolder: join(paths.agentHome, "scripts"),
    outputFolder: cronOutputFolder(paths),
    envPassthrough: config.terminal.env_passthrough,
    ends: cronEnds,
    owner: "default",
  };
}

export function cronOutputFolder({ agentHome }: Pick<Paths, "agentHome">): string {
  return join(agentHome, "cron", "output");
}
