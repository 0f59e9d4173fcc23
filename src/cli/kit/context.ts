/** The environment and folders of the current process. Touches the machine. */
import { homedir } from "node:os";
import process from "node:process";
import { resolveHome, type Environment } from "../../config/home.ts";

export interface CliContext {
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
  /** The home of agentd or of the selected profile. */
  readonly home: string;
}

/** Returns the context of this process. ServiceError `invalid_config` for an invalid profile name. */
export function currentContext(): CliContext {
  const env: Environment = { ...process.env };
  const userHome = homedir();
  return { env, userHome, home: resolveHome({ env, userHome }) };
}
