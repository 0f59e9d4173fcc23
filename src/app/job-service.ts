/** What the agent's tool and `/cron` work on, built from the configuration. */
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { AgentDeps } from "../agent/deps.ts";
import { cronSettings } from "../cron/settings.ts";
import type { JobService } from "../cron/tool/job-service.ts";
import { workspaceRoots, type Paths } from "./settings.ts";

export function createJobService(
  { config, paths }: { readonly config: Config; readonly paths: Paths },
  deps: Pick<AgentDeps, "store" | "clock" | "models" | "tools">,
): JobService {
  const { store, clock, models, tools } = deps;
  return {
    store,
    clock,
    models,
    settings: cronSettings(config),
    toolsets: () => [...new Set(tools().map(({ toolset }) => toolset))],
    workspace: paths.workspace,
    workspaceRoots: workspaceRoots(config, paths),
    scriptsFolder: join(paths.agentHome, "scripts"),
    outputFolder: join(paths.agentHome, "cron", "output"),
  };
}
