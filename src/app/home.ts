/**
 * The home folder and its configuration: the first step of every start. Imports little, because the host of `agentd rpc`
 * waits for it.
 */
import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import type { Config } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { createLog, type Log } from "../base/observe.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../config/config.ts";
import {
  makePrivateFolder,
  prepareHome,
  resolveHome,
  type Environment,
  resolvePaths,
  type ConfigPaths,
} from "../config/home.ts";
import { stagedRestorePath } from "../config/restore.ts";
import { hideSecrets } from "../config/secret-values.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";

export interface HomeOptions {
  /** Default: the environment of this process. */
  readonly env: Environment;
  /** Default: AGENTD_HOME, else `~/.agentd`. */
  readonly home?: string;
  readonly profile?: string;
  readonly log?: Log;
  /** True: first restores the backup that waits in the home, if there is one. */
  readonly restoresStaged?: boolean;
  /** Creates the log from its settings, unless `log` is given. Default: JSON lines on stderr. */
  readonly openLog?: (settings: Config["log"], home: string) => Log;
}

export interface Home {
  readonly folder: string;
  /** Complete and valid. */
  readonly config: Config;
  /** The environment of the process. */
  readonly processEnv: Environment;
  /** The environment of the process over the variables of `<home>/.env`. */
  readonly env: Environment;
  readonly paths: ConfigPaths;
  /** Variables that the configuration uses as secrets, under any name. */
  readonly secretNames: ReadonlySet<string>;
  /** Warnings about the configuration, a clause each. */
  readonly problems: readonly string[];
  readonly log: Log;
  readConfig(): Promise<Config>;
}

/**
 * Creates the home if it is missing, reads its configuration, and redacts its secrets from all further output.
 * ServiceError `invalid_config` lists the errors.
 */
export async function openHome(options: HomeOptions): Promise<Home> {
  const folder = folderOf(options);
  const notices = [...(await prepareHome(folder)), ...(await restoreNotices(options, folder))];
  const { home, loaded } = await read(options);
  for (const notice of notices) home.log.warn(notice);
  logWarnings(loaded, home.log);
  return { ...home, paths: await realPaths(home.paths) };
}

/** Reads the configuration of a home without creating anything, and redacts its secrets like {@link openHome}. */
export async function readHome(options: HomeOptions): Promise<Home> {
  return (await read(options)).home;
}

async function read(options: HomeOptions): Promise<{ readonly home: Home; readonly loaded: LoadedConfig }> {
  const { env: processEnv } = options;
  const home = folderOf(options);
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const log = options.log ?? options.openLog?.(config.log, home) ?? createLog(config.log.level);
  const found: Home = {
    folder: home,
    config,
    processEnv,
    env: loaded.env,
    secretNames: loaded.secretNames,
    paths: resolvePaths({ config, env: loaded.env, home, userHome: homedir() }),
    problems: warningsOf(loaded).map(({ path: key, message }) => `${key} ${message}`),
    log,
    readConfig: async () => {
      const now = await loadConfig({ home, env: processEnv });
      hideSecrets(now);
      return requireValid(now);
    },
  };
  return { home: found, loaded };
}

function folderOf({ env, home, profile }: HomeOptions): string {
  return home ?? resolveHome({ env, userHome: homedir(), ...(profile === undefined ? {} : { profile }) });
}

/** Restores what waits in the home, and returns a sentence about it. A damaged archive does not stop the start. */
async function restoreNotices(
  { env, restoresStaged }: HomeOptions,
  home: string,
): Promise<readonly string[]> {
  if (!restoresStaged || !existsSync(stagedRestorePath(home))) return [];
  const { restoreStaged } = await import("./backup/restore.ts");
  try {
    const restored = await restoreStaged({ env, home, userHome: homedir() });
    if (!restored)
      return ["A backup waits to be restored, but another process uses the database. Stop it, then restart."];
    const { manifest, replaced } = restored;
    const kept = replaced === undefined ? "" : ` What it replaced is in ${replaced}.`;
    return [`The home was restored from the backup of ${manifest.created_at}.${kept}`];
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return [`The backup that waited to be restored was refused: ${error.message}`];
  }
}

/** Opens the database of the home. ServiceError `state_store_unavailable`. */
export function openHomeStore({
  config,
  paths,
  log,
}: Pick<Home, "config" | "paths" | "log">): Promise<Store> {
  return openStore({
    url: paths.databaseUrl,
    maxReaderBytes: config.limits.max_reader_bytes,
    onProblem: (message, error) => log.warn(message, { error }),
  });
}

/** Creates the workspace and resolves links in all paths: the policy compares real paths. */
async function realPaths(paths: ConfigPaths): Promise<ConfigPaths> {
  await makePrivateFolder(paths.workspace, "agent.workspace");
  const agentHome = await realpath(paths.agentHome);
  // Service accounts often have no home folder.
  const userHome = await realpath(paths.userHome).catch(() => paths.userHome);
  const workspace = await realpath(paths.workspace);
  return { ...paths, agentHome, userHome, workspace };
}

function logWarnings(loaded: LoadedConfig, log: Log): void {
  for (const { path, message } of warningsOf(loaded)) {
    log.warn("the configuration has a problem", { key: path, problem: message });
  }
}

function warningsOf({ issues }: LoadedConfig): LoadedConfig["issues"] {
  return issues.filter(({ severity }) => severity !== "error");
}
