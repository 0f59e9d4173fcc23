import { isInside } from "../../base/paths.ts";
/** `agentd backup`: copies the home and its database while services run. */
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { databasePath } from "../../config/home.ts";
import { resolvePaths } from "../../config/paths.ts";
import { currentContext } from "../kit/context.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, optionalArgument, switchOption } from "../kit/options.ts";
import { findDatabase } from "../kit/database.ts";

export const backupCommand = defineCommand({
  meta: {
    name: "backup",
    description:
      "Copy the home and its SQLite database into a new folder while services run. The copy contains your keys",
  },
  args: {
    folder: optionalArgument("A new folder. Default: agentd-backup-<time> in the current folder"),
    workspace: switchOption("Include the workspace if it is inside the home"),
    json: jsonOption,
  },
  async run({ args }) {
    const source = await findSource();
    const target = resolve(args.folder ?? `agentd-backup-${stampOf(new Date())}`);
    const result = await backUp(source, target, { withWorkspace: args.workspace === true });
    if (args.json) return printJson({ folder: target, files: result.files, database: result.database });
    print(`Backed up ${source.home} to ${target}: ${result.files} files, ${databaseText(result.database)}.`);
    print(`To restore it, stop agentd, move ${source.home} away and copy this folder to that path.`);
    if (result.database === "elsewhere") warn(ELSEWHERE);
    if (result.database === "copied" && !isWithin(resolve(source.database.url), source.home))
      warn(`The database was at ${source.database.url}. Copy state.db there.`);
    if (result.workspace !== undefined)
      warn(`The backup does not include the workspace: ${result.workspace}`);
  },
});

const ELSEWHERE =
  'The backup does not include the database, which is on a PostgreSQL server. Copy it with `pg_dump`; see "Backup" in the README.';

interface Source {
  readonly home: string;
  readonly workspace: string;
  readonly database: Awaited<ReturnType<typeof findDatabase>>;
}

interface BackupResult {
  readonly files: number;
  /** Absent: the database does not exist yet. */
  readonly database: "copied" | "absent" | "elsewhere";
  /** The path of the workspace if it was left out. */
  readonly workspace?: string;
}

async function findSource(): Promise<Source> {
  const context = currentContext();
  const home = await realpath(context.home).catch(() => {
    throw new ServiceError("not_found", `Nothing to back up: ${context.home} does not exist.`);
  });
  const loaded = await loadConfig(context);
  const { workspace } = resolvePaths({ ...context, config: requireValid(loaded), env: loaded.env });
  const database = await findDatabase();
  return { home, workspace: await realpath(workspace).catch(() => workspace), database };
}

/** Creates the backup under a temporary name and renames it. ServiceError for an invalid or unwritable folder. */
async function backUp(
  source: Source,
  target: string,
  { withWorkspace }: { readonly withWorkspace: boolean },
): Promise<BackupResult> {
  const { home, workspace, database } = source;
  await refuseTarget(target, home);
  const partial = join(dirname(target), `.${basename(target)}.partial`);
  const isInHome = isInside(workspace, home);
  const leavesWorkspace = !withWorkspace || !isInHome;
  try {
    await mkdir(dirname(target), { recursive: true });
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { mode: 0o700 });
    const databaseTo = databaseTarget(database, home);
    await mkdir(dirname(join(partial, databaseTo)), { recursive: true, mode: 0o700 });
    const databaseState = await copyDatabase(database, join(partial, databaseTo));
    const skipped = new Set([
      ...SKIPPED.map((name) => join(home, name)),
      ...databaseFiles(databasePath(home)),
      ...(databaseState === "elsewhere" ? [] : databaseFiles(resolve(database.url))),
      ...(leavesWorkspace ? [workspace] : []),
    ]);
    const files = await copyTree(home, partial, skipped);
    await rename(partial, target);
    return { files, database: databaseState, ...(leavesWorkspace ? { workspace } : {}) };
  } catch (error) {
    // The folder may not exist.
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    throw toSentence(error, target);
  }
}

/** Rebuilt data, and the homes of other profiles. */
const SKIPPED = ["cache", "profiles", ".lock"];

async function refuseTarget(target: string, home: string): Promise<void> {
  const above = await realpath(dirname(target)).catch(() => dirname(target));
  if (isInside(join(above, basename(target)), home)) {
    throw new ServiceError(
      "invalid_config",
      `${target} is inside the home. Choose a folder outside of ${home}.`,
    );
  }
  if (await lstat(target).catch(() => undefined)) {
    throw new ServiceError("invalid_config", `${target} already exists. Choose a new folder.`);
  }
}

async function copyDatabase(
  { url, exists }: Source["database"],
  to: string,
): Promise<BackupResult["database"]> {
  if (/^postgres(ql)?:\/\//.test(url)) return "elsewhere";
  if (!exists) return "absent";
  const { copySqlite } = await import("../../store/backup.ts");
  await copySqlite(url, to);
  return "copied";
}

/** Returns the path of the database relative to the home, or its default name if it is elsewhere. */
function databaseTarget({ url }: Source["database"], home: string): string {
  return isWithin(resolve(url), home) ? relative(home, resolve(url)) : basename(databasePath(home));
}

function databaseFiles(path: string): readonly string[] {
  return [path, `${path}-wal`, `${path}-shm`, `${path}-journal`];
}

/** Returns the number of copied files. Skips files that disappear meanwhile. */
async function copyTree(from: string, to: string, skipped: ReadonlySet<string>): Promise<number> {
  let count = 0;
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (skipped.has(source)) continue;
    try {
      if (entry.isDirectory()) {
        await mkdir(target, { recursive: true, mode: 0o700 });
        count += await copyTree(source, target, skipped);
        await chmod(target, (await stat(source)).mode & 0o777);
      } else if (entry.isSymbolicLink()) {
        await symlink(await readlink(source), target);
      } else if (entry.isFile()) {
        await copyFile(source, target);
        count += 1;
      }
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
  }
  return count;
}

function toSentence(error: unknown, target: string): unknown {
  const code = codeOf(error);
  if (error instanceof ServiceError || code === undefined) return error;
  const what = `Cannot create the backup ${target} (${code}). Check the folder, its permissions and the free disk space.`;
  return new ServiceError("invalid_config", what, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (!way.startsWith("..") && resolve(folder, way) === path);
}

function databaseText(state: BackupResult["database"]): string {
  if (state === "copied") return "with the database";
  return state === "absent" ? "without a database, which does not exist yet" : "without the database";
}

/** Returns `2026-11-23T02-45-23`, which sorts and is valid on every file system. */
function stampOf(now: Date): string {
  return now.toISOString().slice(0, 19).replaceAll(":", "-");
}
