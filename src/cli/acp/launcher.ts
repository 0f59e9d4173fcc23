/** How another program starts this one, as this process was started. */
import { join } from "node:path";
import type { Launcher } from "../../acp/wire/snippets.ts";
import { ownProgram } from "../../base/system/own-program.ts";
import { resolveHome } from "../../config/home.ts";
import { currentContext, type CliContext } from "../kit/context.ts";

export function ownLauncher(): Launcher {
  const [command = "", ...args] = ownProgram();
  return { command, args, env: homeVariables(currentContext()) };
}

/** An editor does not have what a shell has in its environment: another home than the usual one must be said. */
function homeVariables({ env, userHome }: CliContext): Readonly<Record<string, string>> {
  const profile = env["AGENTD_PROFILE"];
  const home = resolveHome({ env, userHome, profile: "" });
  return {
    ...(home === join(userHome, ".agentd") ? {} : { AGENTD_HOME: home }),
    ...(profile ? { AGENTD_PROFILE: profile } : {}),
  };
}
