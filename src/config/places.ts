/** Where a service of this configuration keeps and finds things; absolute paths. */
import { join, resolve } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Environment } from "./home.ts";
import { resolveSecret } from "./secrets.ts";

export interface ConfigPlaces {
  readonly agentHome: string;
  readonly userHome: string;
  readonly workspace: string;
  /** `postgres://...`, or the path of an SQLite file. */
  readonly databaseUrl: string;
}

const DATABASE_FILE = "state.db";

/** Relative paths of the configuration are relative to `home`. ServiceError `invalid_config` as of resolveSecret. */
export function resolvePlaces(from: {
  readonly config: Config;
  readonly env: Environment;
  readonly home: string;
  readonly userHome: string;
}): ConfigPlaces {
  const { config, env, home, userHome } = from;
  const { workspace = "workspace" } = config.agent;
  return {
    agentHome: home,
    userHome,
    workspace: absolute(workspace, from),
    databaseUrl: resolveSecret(config.database.url ?? join(home, DATABASE_FILE), env, "database.url"),
  };
}

function absolute(
  path: string,
  { home, userHome }: { readonly home: string; readonly userHome: string },
): string {
  return path === "~" || path.startsWith("~/") ? join(userHome, path.slice(1)) : resolve(home, path);
}
