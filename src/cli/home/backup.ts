/** `agentd backup`: writes the home and its database into one file while services run. */
import {
  chmod,
  copyFile,
  link,
  lstat,
  mkdir,
  readdir,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { defineCommand } from "citty";
import packageFile from "../../../package.json" with { type: "json" };
import { ServiceError } from "../../base/errors.ts";
import { isInside } from "../../base/text.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { databasePath, resolvePaths } from "../../config/home.ts";
import { currentContext } from "../kit/context.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, optionalArgument, switchOption } from "../kit/options.ts";
import { findDatabase } from "../kit/database.ts";
import { pack, type BackupFacts, type Manifest } from "./archive.ts";
import { removeSecrets } from "./scrub.ts";

export const backupCommand = defineCommand({
  meta: {
    name: "backup",
    description:
      "Write the home and its SQLite database into one file while services run. Keys are left out unless --secrets is given",
  },
  args: {
    file: optionalArgument("A new file. Default: agentd-backup-<time>.tar.gz in the current folder"),
    secrets: switchOption("Include .env and the secrets in config.yaml and in webhook subscriptions"),
    workspace: switchOption("Include the workspace if it is inside the home"),
    json: jsonOption,
  },
  async run({ args }) {
    const source = await findSource();
    const target = resolve(args.file ?? `agentd-backup-${stampOf(new Date())}.tar.gz`);
    const options = { withWorkspace: args.workspace === true, withSecrets: args.secrets === true };
    const { manifest, workspace } = await backUp(source, target, options);
    const { database, omitted } = manifest;
    const files = manifest.files.length;
    if (args.json) return printJson({ file: target, files, database, secrets: manifest.secrets, omitted });
    print(`Backed up ${source.home} to ${target}: ${files} files, ${databaseText(database)}.`);
    print(`Check it with \`agentd restore ${target} --dry-run\`.`);
    if (database === "elsewhere") warn(ELSEWHERE);
    if (omitted.length > 0)
      warn(`Secrets that it does not include: ${omitted.join(", ")}. Pass --secrets for them.`);
    if (workspace !== undefined) warn(`The backup does not include the workspace: ${workspace}`);
  },
});

const ELSEWHERE =
  'The backup does not include the database, which is on a PostgreSQL server. Copy it with `pg_dump`; see "Backup" in docs/operations.md.';

interface Options {
  readonly withWorkspace: boolean;
  readonly withSecrets: boolean;
}

interface Source {
  readonly home: string;
  readonly workspace: string;
  readonly database: Awaited<ReturnType<typeof findDatabase>>;
}

interface BackupResult {
  readonly manifest: Manifest;
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

/**
 * Copies the home into a temporary folder beside the target, then packs it. ServiceError for an invalid or unwritable
 * file.
 */
async function backUp(source: Source, target: string, options: Options): Promise<BackupResult> {
  await refuseTarget(target, source.home);
  const partial = join(dirname(target), `.${basename(target)}.partial`);
  const packed = `${partial}.tar.gz`;
  try {
    await mkdir(dirname(target), { recursive: true });
    await rm(partial, { recursive: true, force: true });
    await rm(packed, { force: true });
    await mkdir(partial, { mode: 0o700 });
    const { workspace, ...copied } = await copyHome(source, partial, options);
    const omitted = options.withSecrets ? [] : await removeSecrets(partial);
    const manifest = await pack(partial, packed, {
      version: packageFile.version,
      created_at: new Date().toISOString(),
      home: source.home,
      ...copied,
      secrets: options.withSecrets,
      omitted,
    });
    // Unlike a rename, a link never replaces a file.
    await link(packed, target);
    return { manifest, ...(workspace === undefined ? {} : { workspace }) };
  } catch (error) {
    throw toSentence(error, target);
  } finally {
    // The folder may not exist.
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    await rm(packed, { force: true }).catch(() => {});
  }
}

async function copyHome({ home, workspace, database }: Source, folder: string, { withWorkspace }: Options) {
  const leavesWorkspace = !withWorkspace || !isInside(workspace, home);
  const databaseTo = databaseTarget(database, home);
  await mkdir(dirname(join(folder, databaseTo)), { recursive: true, mode: 0o700 });
  const state = await copyDatabase(database, join(folder, databaseTo));
  const others = (await readdir(home)).filter((name) => RESTORES.test(name));
  const skipped = new Set([
    ...[...SKIPPED, ...others].map((name) => join(home, name)),
    ...databaseFiles(databasePath(home)),
    ...(state === "elsewhere" ? [] : databaseFiles(resolve(database.url))),
    ...(leavesWorkspace ? [workspace] : []),
  ]);
  await copyTree(home, folder, skipped);
  return {
    database: state,
    ...(state === "copied" ? { database_path: databaseTo } : {}),
    ...(leavesWorkspace ? { workspace } : {}),
  };
}

/** Rebuilt data, the log, and the homes of other profiles. */
export const SKIPPED: readonly string[] = ["cache", "logs", "profiles", ".lock"];
/** What `agentd restore` leaves in a home: replaced entries, and the folder of an interrupted one. */
export const RESTORES = /^(?:replaced-|\.restore)/;

async function refuseTarget(target: string, home: string): Promise<void> {
  const above = await realpath(dirname(target)).catch(() => dirname(target));
  if (isInside(join(above, basename(target)), home)) {
    throw new ServiceError("invalid_config", `${target} is inside the home. Choose a path outside ${home}.`);
  }
  if (await lstat(target).catch(() => undefined)) {
    throw new ServiceError("invalid_config", `${target} already exists. Choose a new file.`);
  }
}

async function copyDatabase(
  { url, exists }: Source["database"],
  to: string,
): Promise<BackupFacts["database"]> {
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

/** Skips files that disappear meanwhile. */
async function copyTree(from: string, to: string, skipped: ReadonlySet<string>): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (skipped.has(source)) continue;
    try {
      if (entry.isDirectory()) {
        await mkdir(target, { recursive: true, mode: 0o700 });
        await copyTree(source, target, skipped);
        await chmod(target, (await stat(source)).mode & 0o777);
      } else if (entry.isSymbolicLink()) {
        await symlink(await readlink(source), target);
      } else if (entry.isFile()) {
        await copyFile(source, target);
      }
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
  }
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

export function databaseText(state: BackupFacts["database"]): string {
  if (state === "copied") return "with the database";
  return state === "absent" ? "without a database, which does not exist yet" : "without the database";
}

/** Returns `2026-11-23T02-45-23`, which sorts and is valid on every file system. */
export function stampOf(now: Date): string {
  return now.toISOString().slice(0, 19).replaceAll(":", "-");
}
