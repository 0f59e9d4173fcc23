/** Backups of a home: one archive with a consistent copy of its database, while services run. Touches the machine. */
import {
  chmod,
  copyFile,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { createReadStream } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import { ServiceError } from "../../base/errors.ts";
import { isInside } from "../../base/text.ts";
import { databasePath } from "../../config/home.ts";
import { pack, type BackupFacts, type Manifest } from "./archive.ts";
import { removeSecrets } from "./scrub.ts";

export interface BackupOptions {
  readonly withWorkspace: boolean;
  readonly withSecrets: boolean;
}

export interface BackupSource {
  readonly home: string;
  readonly workspace: string;
  readonly database: { readonly url: string; readonly exists: boolean };
}

export interface BackupResult {
  readonly manifest: Manifest;
  /** The path of the workspace if it was left out. */
  readonly workspace?: string;
}

/**
 * Resolves to a backup in a temporary folder, which is deleted once its content is read or its reader leaves. ServiceError
 * `state_store_unavailable`.
 */
export async function archiveOf(
  from: { readonly home: string; readonly workspace: string; readonly url: string },
  options: BackupOptions,
): Promise<{ readonly name: string; readonly content: AsyncIterable<Uint8Array> }> {
  const home = await realpath(from.home);
  const workspace = await realpath(from.workspace).catch(() => from.workspace);
  const folder = await mkdtemp(join(tmpdir(), "agentd-backup-"));
  const name = `agentd-backup-${stampOf(new Date())}.tar.gz`;
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await backUp({ home, workspace, database: { url: from.url, exists: true } }, join(folder, name), options);
  } catch (error) {
    await remove();
    throw error;
  }
  return { name, content: contentOf(join(folder, name), remove) };
}

async function* contentOf(file: string, remove: () => Promise<void>): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file) as AsyncIterable<Uint8Array>;
  } finally {
    await remove();
  }
}

/**
 * Copies the home into a temporary folder beside the target, then packs it. ServiceError for an invalid or unwritable
 * file.
 */
export async function backUp(
  source: BackupSource,
  target: string,
  options: BackupOptions,
): Promise<BackupResult> {
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

async function copyHome(
  { home, workspace, database }: BackupSource,
  folder: string,
  { withWorkspace }: BackupOptions,
) {
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
  { url, exists }: BackupSource["database"],
  to: string,
): Promise<BackupFacts["database"]> {
  if (/^postgres(ql)?:\/\//.test(url)) return "elsewhere";
  if (!exists) return "absent";
  const { copySqlite } = await import("../../store/backup.ts");
  await copySqlite(url, to);
  return "copied";
}

/** Returns the path of the database relative to the home, or its default name if it is elsewhere. */
function databaseTarget({ url }: BackupSource["database"], home: string): string {
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

/** Returns `2026-11-23T02-45-23`, which sorts and is valid on every file system. */
export function stampOf(now: Date): string {
  return now.toISOString().slice(0, 19).replaceAll(":", "-");
}
