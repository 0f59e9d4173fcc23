/**
 * A home folder, made private and read: what every start begins with. It imports little, because the host of
 * `agentd rpc` waits for it. Reads the user's home from the system.
 */
import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import type { Config } from "../../generated/config/types.gen.ts";
import { createLog, type Log } from "../base/observe/log.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../config/config.ts";
import { makePrivateFolder, prepareHome, resolveHome, type Environment } from "../config/home.ts";
import { resolvePaths, type ConfigPaths } from "../config/paths.ts";
import { hideSecrets } from "../config/secrets/values.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";

export interface OpenHomeOptions {
  /** Default: the environment of this process. */
  readonly env: Environment;
  /** Default: AGENTD_HOME, else `~/.agentd`. */
  readonly home?: string;
  readonly profile?: string;
  readonly log?: Log;
}

export interface OpenedHome {
  readonly home: string;
  /** Complete and valid. */
  readonly config: Config;
  /** The environment of the process. */
  readonly processEnv: Environment;
  /** The environment of the process over the variables of `<home>/.env`. */
  readonly env: Environment;
  readonly paths: ConfigPaths;
  /** Variables that hold secrets whatever they are called. */
  readonly secretNames: ReadonlySet<string>;
  /** Flaws of the configuration that do not keep it from being used, a clause each. */
  readonly problems: readonly string[];
  readonly log: Log;
  readConfig(): Promise<Config>;
}

/**
 * Makes the home when there is none, and reads its configuration. From then on no secret of it is printed.
 * ServiceError `invalid_config` that lists what is wrong.
 */
export async function openHome(options: OpenHomeOptions): Promise<OpenedHome> {
  const userHome = homedir();
  const { env: processEnv, profile } = options;
  const home =
    options.home ?? resolveHome({ env: processEnv, userHome, ...(profile === undefined ? {} : { profile }) });
  const notices = await prepareHome(home);
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const log = options.log ?? createLog(config.log.level);
  for (const notice of notices) log.warn(notice);
  warn(loaded, log);
  return {
    home,
    config,
    processEnv,
    env: loaded.env,
    secretNames: loaded.secretNames,
    paths: await realPaths(resolvePaths({ config, env: loaded.env, home, userHome })),
    problems: warningsOf(loaded).map(({ path: key, message }) => `${key} ${message}`),
    log,
    readConfig: async () => {
      const now = await loadConfig({ home, env: processEnv });
      hideSecrets(now);
      return requireValid(now);
    },
  };
}

/** The store of the home. ServiceError `state_store_unavailable`. */
export function openHomeStore({
  config,
  paths,
  log,
}: Pick<OpenedHome, "config" | "paths" | "log">): Promise<Store> {
  return openStore({
    url: paths.databaseUrl,
    maxReaderBytes: config.limits.max_reader_bytes,
    onProblem: (message, error) => log.warn(message, { error }),
  });
}

/** Makes the workspace. The policy compares paths as they really are, without links, so its places must be so too. */
async function realPaths(paths: ConfigPaths): Promise<ConfigPaths> {
  await makePrivateFolder(paths.workspace, "agent.workspace");
  const agentHome = await realpath(paths.agentHome);
  // Users that services run as often have none.
  const userHome = await realpath(paths.userHome).catch(() => paths.userHome);
  const workspace = await realpath(paths.workspace);
  return { ...paths, agentHome, userHome, workspace };
}

function warn(loaded: LoadedConfig, log: Log): void {
  for (const { path, message } of warningsOf(loaded)) {
    log.warn("the configuration has a flaw", { key: path, problem: message });
  }
}

function warningsOf({ issues }: LoadedConfig): LoadedConfig["issues"] {
  return issues.filter(({ severity }) => severity !== "error");
}
