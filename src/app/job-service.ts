/** What the agent's tool and `/cron` work on, built from the configuration. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { AgentParts } from "../agent/deps.ts";
import { cronSettings } from "../cron/settings.ts";
import type { JobDesk } from "../cron/tool/job-service.ts";
import { workspaceRoots, type Places } from "./settings.ts";

export function createJobDesk(
  { config, places }: { readonly config: Config; readonly places: Places },
  parts: Pick<AgentParts, "store" | "clock" | "models" | "tools">,
): JobDesk {
  const { store, clock, models, tools } = parts;
  return {
    store,
    clock,
    models,
    settings: cronSettings(config),
    toolsets: () => [...new Set(tools().map(({ toolset }) => toolset))],
    workspace: places.workspace,
    workspaceRoots: workspaceRoots(config, places),
    scriptsFolder: join(places.agentHome, "scripts"),
    outputFolder: join(places.agentHome, "cron", "output"),
  };
}
