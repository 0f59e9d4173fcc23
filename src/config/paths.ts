/** Absolute paths of a configured service. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { databasePath, resolveWithin, type Environment } from "./home.ts";
import { resolveSecret } from "./secrets/reference.ts";

export interface ConfigPaths {
  readonly agentHome: string;
  readonly userHome: string;
  readonly workspace: string;
  /** `postgres://...`, or the path of an SQLite file. */
  readonly databaseUrl: string;
}

/** Resolves the configuration's paths, relative to `home`. ServiceError `invalid_config` as in resolveSecret. */
export function resolvePaths(from: {
  readonly config: Config;
  readonly env: Environment;
  readonly home: string;
  readonly userHome: string;
}): ConfigPaths {
  const { config, env, home, userHome } = from;
  const { workspace = "workspace" } = config.agent;
  return {
    agentHome: home,
    userHome,
    workspace: resolveWithin(home, workspace, userHome),
    databaseUrl: resolveSecret(config.database.url ?? databasePath(home), env, "database.url"),
  };
}
