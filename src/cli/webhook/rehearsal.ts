/** What a route would make of a request, worked out in this process: nothing is sent and nothing is recorded. */
import { createSkills } from "../../app/wire-agent.ts";
import { createLog } from "../../base/observe/log.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePlaces } from "../../config/paths.ts";
import type { BelievedRequest, Judged } from "../../webhook/receive/evaluate.ts";
import { rehearse } from "../../webhook/deliveries/replay.ts";
import type { StageName } from "../../webhook/receive/stage.ts";
import { createJudgePorts } from "../../app/wire-webhook.ts";
import { currentContext } from "../kit/context.ts";
import { warn } from "../kit/output.ts";

/** The stages up to `upTo` (default: all that come before the record). The route's script runs. */
export async function rehearseRequest(
  request: BelievedRequest,
  options: { readonly upTo?: StageName } = {},
): Promise<Judged> {
  const { home, env: processEnv, userHome } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  const places = resolvePlaces({ config, env, home, userHome });
  const log = createLog("warn", (line) => warn(line.trimEnd()));
  const skills = createSkills(config, places);
  return rehearse(request, createJudgePorts({ config, env, places }, { skills, log }), options);
}
