/** What commands are told by the process they run in. Touches the machine. */
import { homedir } from "node:os";
import process from "node:process";
import { resolveHome, type Environment } from "../../config/home.ts";

export interface CliContext {
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
  /** The home of agentd, or of the profile that was chosen. */
  readonly home: string;
}

/** ServiceError `invalid_config` for a profile name that is not allowed. */
export function currentContext(): CliContext {
  const env: Environment = { ...process.env };
  const userHome = homedir();
  return { env, userHome, home: resolveHome({ env, userHome }) };
}
