/** Dry run of a request in this process: sends and records nothing. */
import { createSkills } from "../../app/wire-agent.ts";
import { createLog } from "../../base/observe/log.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths } from "../../config/paths.ts";
import type { VerifiedRequest, Evaluated, StageName } from "../../webhook/receive/evaluate.ts";
import { rehearse } from "../../webhook/deliveries/replay.ts";
import { createEvaluationPorts } from "../../app/wire-webhook.ts";
import { currentContext } from "../kit/context.ts";
import { warn } from "../kit/output.ts";

/** Runs the stages up to `upTo` (default: all before the record), including the script of the route. */
export async function dryRunRequest(
  request: VerifiedRequest,
  options: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  const { home, env: processEnv, userHome } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  const paths = resolvePaths({ config, env, home, userHome });
  const log = createLog("warn", (line) => warn(line.trimEnd()));
  const skills = createSkills(config, paths);
  return rehearse(request, createEvaluationPorts({ config, env, paths }, { skills, log }), options);
}
