/** `agentd backup`: a copy of the home and its database, made while services go on working. */
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
import { jsonOption } from "../kit/options.ts";
import { findDatabase } from "../kit/database.ts";

export const backupCommand = defineCommand({
  meta: {
    name: "backup",
    description:
      "Copy the home and its SQLite database into a new folder, as they are now; services go on meanwhile. The copy holds your keys",
  },
  args: {
    folder: {
      type: "positional",
      required: false,
      description: "Folder that does not exist yet. Default: agentd-backup-<time> where you are",
    },
    workspace: { type: "boolean", description: "Copy the workspace too, where it is part of the home" },
    json: jsonOption,
  },
  async run({ args }) {
    const source = await findSource();
    const target = resolve(args.folder ?? `agentd-backup-${stampOf(new Date())}`);
    const made = await backUp(source, target, { withWorkspace: args.workspace === true });
    if (args.json) return printJson({ folder: target, files: made.files, database: made.database });
    print(`Backed up ${source.home} to ${target}: ${made.files} files, ${databaseText(made.database)}.`);
    print(`To restore it, stop agentd, move ${source.home} away, and copy this folder there.`);
    if (made.database === "elsewhere") warn(ELSEWHERE);
    if (made.database === "copied" && !isWithin(resolve(source.database.url), source.home))
      warn(`The database was at ${source.database.url}: put state.db there.`);
    if (made.workspace !== undefined) warn(`The workspace is not in it: ${made.workspace}`);
  },
});

const ELSEWHERE =
  'The database is on a PostgreSQL server and not in the backup: copy it with `pg_dump`, see "Backup" in the README.';

interface Source {
  readonly home: string;
  readonly workspace: string;
  readonly database: Awaited<ReturnType<typeof findDatabase>>;
}

interface Made {
  readonly files: number;
  /** Absent where nothing has been kept yet. */
  readonly database: "copied" | "absent" | "elsewhere";
  /** Where it is, when it was left out. */
  readonly workspace?: string;
}

async function findSource(): Promise<Source> {
  const context = currentContext();
  const home = await realpath(context.home).catch(() => {
    throw new ServiceError("not_found", `There is nothing to back up: ${context.home} does not exist.`);
  });
  const loaded = await loadConfig(context);
  const { workspace } = resolvePaths({ ...context, config: requireValid(loaded), env: loaded.env });
  const database = await findDatabase();
  return { home, workspace: await realpath(workspace).catch(() => workspace), database };
}

/** The folder has its name once it is whole. ServiceError for a folder that exists, lies in the home or cannot be made. */
async function backUp(
  source: Source,
  target: string,
  { withWorkspace }: { readonly withWorkspace: boolean },
): Promise<Made> {
  const { home, workspace, database } = source;
  await refuseTarget(target, home);
  const partial = join(dirname(target), `.${basename(target)}.partial`);
  const isInHome = isWithin(workspace, home);
  const leavesWorkspace = !withWorkspace || !isInHome;
  try {
    await mkdir(dirname(target), { recursive: true });
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { mode: 0o700 });
    const databaseTo = placeOf(database, home);
    await mkdir(dirname(join(partial, databaseTo)), { recursive: true, mode: 0o700 });
    const kept = await copyDatabase(database, join(partial, databaseTo));
    const skipped = new Set([
      ...SKIPPED.map((name) => join(home, name)),
      ...databaseFiles(databasePath(home)),
      ...(kept === "elsewhere" ? [] : databaseFiles(resolve(database.url))),
      ...(leavesWorkspace ? [workspace] : []),
    ]);
    const files = await copyTree(home, partial, skipped);
    await rename(partial, target);
    return { files, database: kept, ...(leavesWorkspace ? { workspace } : {}) };
  } catch (error) {
    // Where nothing could be made, nothing has to go.
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    throw toSentence(error, target);
  }
}

/** What is made anew, and homes of their own. */
const SKIPPED = ["cache", "profiles", ".lock"];

async function refuseTarget(target: string, home: string): Promise<void> {
  const above = await realpath(dirname(target)).catch(() => dirname(target));
  if (isWithin(join(above, basename(target)), home)) {
    throw new ServiceError(
      "invalid_config",
      `${target} lies in the home itself. Name a folder outside of ${home}.`,
    );
  }
  if (await lstat(target).catch(() => undefined)) {
    throw new ServiceError("invalid_config", `${target} exists. Name a folder that does not exist yet.`);
  }
}

async function copyDatabase({ url, exists }: Source["database"], to: string): Promise<Made["database"]> {
  if (/^postgres(ql)?:\/\//.test(url)) return "elsewhere";
  if (!exists) return "absent";
  const { copySqlite } = await import("../../store/backup.ts");
  await copySqlite(url, to);
  return "copied";
}

/** Where it was, seen from the home; of one that lies elsewhere its usual name. */
function placeOf({ url }: Source["database"], home: string): string {
  return isWithin(resolve(url), home) ? relative(home, resolve(url)) : basename(databasePath(home));
}

function databaseFiles(path: string): readonly string[] {
  return [path, `${path}-wal`, `${path}-shm`, `${path}-journal`];
}

/** Returns how many files were copied. What goes away meanwhile is left out: it was about to be replaced. */
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
  const what = `The backup ${target} cannot be made (${code}). Check the folder, its permissions and the room on the disk.`;
  return new ServiceError("invalid_config", what, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (!way.startsWith("..") && resolve(folder, way) === path);
}

function databaseText(state: Made["database"]): string {
  if (state === "copied") return "with the database";
  return state === "absent" ? "and no database, as there is none yet" : "without the database";
}

/** `2026-11-23T02-45-23`: sorts, and every file system takes it. */
function stampOf(now: Date): string {
  return now.toISOString().slice(0, 19).replaceAll(":", "-");
}
