/** Dry run of a request in this process: sends and records nothing. */
import { createSkills } from "../../app/wire-agent.ts";
import { createLog } from "../../base/observe.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths, type Environment } from "../../config/home.ts";
import type { VerifiedRequest, StageName } from "../../webhook/receive/evaluate.ts";
import { dryRun, type DryRun } from "../../webhook/deliveries/replay.ts";
import { currentContext } from "../kit/context.ts";
import { warn } from "../kit/output.ts";
import type { Config } from "../../../generated/config/types.gen.ts";
import { platformSettings } from "../../config/platform-settings.ts";
import type { Homes } from "../../deliver/address.ts";
import { platformNames, platformProblems } from "../../deliver/platform/platforms.ts";

/** Runs the stages up to `upTo` (default: all before the record), including the script of the route. */
export async function dryRunRequest(
  request: VerifiedRequest,
  options: { readonly upTo?: StageName } = {},
): Promise<DryRun> {
  const { home, env: processEnv, userHome } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  const paths = resolvePaths({ config, env, home, userHome });
  const log = createLog("warn", (line) => warn(line.trimEnd()));
  const skills = createSkills(config, paths);
  const homes = await findHomes(config, env);
  return dryRun(request, { config, env, paths, skills, log, homes, ...options });
}

/** Returns the home channels of the platforms that are set up, from their settings: no platform is connected. */
async function findHomes(config: Config, env: Environment): Promise<Homes> {
  const homes = new Map<string, string>();
  for (const name of platformNames) {
    const settings: Readonly<Record<string, unknown>> = platformSettings(name, config, env);
    const { home_channel: chat, home_thread: thread } = settings;
    if (typeof chat !== "string" || chat === "") continue;
    if ((await platformProblems([name], config, env)).length > 0) continue;
    homes.set(name, typeof thread === "string" && thread !== "" ? `${chat}:${thread}` : chat);
  }
  return homes;
}
