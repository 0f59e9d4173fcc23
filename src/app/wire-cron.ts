/** The scheduler, built from the configuration. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { AgentRoom } from "./wire-agent.ts";
import type { CronRoom } from "../cron/deps.ts";
import { cronSettings } from "../cron/settings.ts";
import { homesOf } from "../deliver/address.ts";
import type { Targets } from "../deliver/target.ts";
import type { Places } from "./settings.ts";

export function createCronRoom(
  { config, places }: { readonly config: Config; readonly places: Places },
  {
    agent,
    skills,
    cronEnds,
    targets,
  }: Pick<AgentRoom, "agent" | "skills" | "cronEnds"> & { readonly targets: Targets },
): CronRoom {
  const { store, clock, log, models } = agent.parts;
  return {
    store,
    clock,
    log,
    turns: agent.turns,
    models,
    fallbacks: config.model.fallbacks,
    skills,
    settings: cronSettings(config),
    homes: homesOf(targets),
    // Those that are configured count while their servers are still starting, or have no tools yet.
    toolsets: () => [
      ...new Set([...config.agent.toolsets, ...agent.parts.tools().map(({ toolset }) => toolset)]),
    ],
    workspace: places.workspace,
    scriptsFolder: join(places.agentHome, "scripts"),
    outputFolder: cronOutputFolder(places),
    envPassthrough: config.terminal.env_passthrough,
    ends: cronEnds,
    owner: "default",
  };
}

export function cronOutputFolder({ agentHome }: Pick<Places, "agentHome">): string {
  return join(agentHome, "cron", "output");
}
