/** Opens the jobs of a home for the cron commands that work on this machine only. */
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { prepareHome, type Environment, type ConfigPaths, resolvePaths } from "../../config/home.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import type { JobDefinition } from "../../cron/job/job.ts";
import { Jobs } from "../../cron/job/jobs.ts";
import { cronSettings, type CronSettings } from "../../cron/deps.ts";
import { targetWarnings } from "../../cron/job/warnings.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import type { Store } from "../../store/store.ts";
import { currentContext } from "../kit/context.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { warn } from "../kit/output.ts";

export interface CronHome {
  readonly config: Config;
  /** With the variables of the home's file. */
  readonly env: Environment;
  readonly settings: CronSettings;
  readonly paths: ConfigPaths;
  readonly scriptsFolder: string;
  readonly outputFolder: string;
}

export interface CronContext extends CronHome {
  readonly store: Store;
  readonly jobs: Jobs;
}

/** Reads the home without creating it, and redacts its secrets from all output. ServiceError `invalid_config`. */
export async function readCronHome(): Promise<CronHome> {
  const { home, env, userHome } = currentContext();
  const loaded = await loadConfig({ home, env });
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const paths = resolvePaths({ config, env: loaded.env, home, userHome });
  const { agentHome } = paths;
  const folder = await realpath(agentHome).catch(() => agentHome);
  return {
    config,
    env: loaded.env,
    settings: cronSettings(config),
    paths,
    scriptsFolder: join(folder, "scripts"),
    outputFolder: join(folder, "cron", "output"),
  };
}

/**
 * Changes jobs. Creates the home and its database if they are missing. Prefixes errors with
 * `Failed to <action> job: ...`.
 */
export async function changeJobs(
  action: string,
  work: (cronContext: CronContext) => Promise<void>,
): Promise<void> {
  await prepareHome(currentContext().home);
  const home = await readCronHome();
  await withDatabase(await findDatabase(), (store) =>
    work({ ...home, store, jobs: new Jobs(store, home.settings) }).catch((error: unknown) => {
      throw failure(action, error);
    }),
  );
}

/** Reads the jobs. Without a database, prints a hint and resolves to false. */
export async function readJobs(work: (cronContext: CronContext) => Promise<void>): Promise<boolean> {
  const home = await readCronHome();
  const database = await findDatabase();
  if (!database.exists) {
    warn(noDatabase(database.location));
    return false;
  }
  await withDatabase(database, (store) => work({ ...home, store, jobs: new Jobs(store, home.settings) }));
  return true;
}

/** Warns about platforms that jobs send to and that are not ready, and about an origin that is only a file. */
export async function warnOfTargets(
  { config, env }: CronHome,
  jobs: readonly Partial<Pick<JobDefinition, "deliver" | "failureDeliver" | "origin">>[],
): Promise<void> {
  const warnings = await targetWarnings(jobs, (names) => platformProblems(names, config, env));
  for (const warning of warnings) warn(`Warning: ${warning}`);
}

function failure(action: string, error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error;
  return new ServiceError(error.code, redact(`Failed to ${action} job: ${error.message}`), { cause: error });
}
