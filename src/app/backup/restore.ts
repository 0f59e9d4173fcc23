/** Restores a home from a backup, now or at the next start. Touches the machine. */
import { existsSync } from "node:fs";
import { mkdtemp, open, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, relative, sep } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig } from "../../config/config.ts";
import {
  prepareHome,
  resolvePaths,
  resolveWithin,
  writePrivateFile,
  type Environment,
} from "../../config/home.ts";
import { replaceEntries, stagedRestorePath, undoRestore } from "../../config/restore.ts";
import { checkSqlite, isSqliteInUse, renewEpoch } from "../../store/backup.ts";
import { unpack, type Manifest } from "./archive.ts";
import { RESTORES, SKIPPED, stampOf } from "./backup.ts";
import { SECRET_FILES } from "./scrub.ts";

/** A home and what its paths depend on. */
export interface HomeContext {
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
  /** The home of agentd. */
  readonly home: string;
}

export interface Restored {
  readonly manifest: Manifest;
  /** Where the old content is, if there was any. */
  readonly replaced?: string;
}

/** Reads the whole backup into the home's file system and checks it, before anything changes. */
export async function restoreHome(file: string, context: HomeContext): Promise<Restored> {
  const { home } = context;
  const isNew = (await entriesOf(home)).length === 0;
  await prepareHome(home);
  const stage = await mkdtemp(join(home, ".restore-"));
  try {
    const manifest = await readBackup(file, stage);
    if (manifest.database_path !== undefined) renewEpoch(join(stage, manifest.database_path));
    const incoming = await readdir(stage);
    const kept = await keptNames(context, manifest);
    const outgoing = (await readdir(home)).filter((name) => incoming.includes(name) || !kept(name));
    const replaced = freeName(home, `replaced-${stampOf(new Date())}`);
    await replaceEntries(home, { staged: basename(stage), replaced, outgoing, incoming });
    if (outgoing.length > 0) return { manifest, replaced: join(home, replaced) };
    await rm(join(home, replaced), { recursive: true });
    return { manifest };
  } finally {
    await rm(stage, { recursive: true, force: true });
    if (isNew) await removeIfEmpty(home);
  }
}

function freeName(home: string, name: string): string {
  for (let count = 1; ; count++) {
    const next = count === 1 ? name : `${name}-${count}`;
    if (!existsSync(join(home, next))) return next;
  }
}

/** Checks a backup completely and changes nothing. ServiceError `invalid_request`. */
export async function checkBackup(file: string): Promise<Manifest> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-restore-"));
  try {
    return await readBackup(file, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the names in a home that a restore replaces. */
export async function entriesOf(home: string): Promise<readonly string[]> {
  const names = await readdir(home).catch(() => []);
  return names.filter((name) => !SKIPPED.includes(name));
}

/** Writes the content of the backup into the folder. ServiceError `invalid_request` unless all of it is intact. */
async function readBackup(file: string, folder: string): Promise<Manifest> {
  const manifest = await unpack(file, folder);
  if (manifest.database_path !== undefined) checkSqlite(join(folder, manifest.database_path));
  return manifest;
}

/** Returns which names stay unless the backup has them: also the workspace, and the keys of a backup without keys. */
async function keptNames(context: HomeContext, { secrets }: Manifest): Promise<(name: string) => boolean> {
  const { home, userHome } = context;
  const { config } = await loadConfig(context);
  const folder = resolveWithin(home, config.agent.workspace ?? "workspace", userHome);
  const [workspace = ""] = relative(home, folder).split(sep);
  const kept = [...SKIPPED, workspace, ...(secrets ? [] : SECRET_FILES)];
  return (name) => kept.includes(name) || RESTORES.test(name);
}

async function removeIfEmpty(home: string): Promise<void> {
  const names = await readdir(home).catch(() => []);
  if (names.every((name) => name === ".lock")) await rm(home, { recursive: true, force: true });
}

// A restore at the next start: a running service would continue with files that are no longer there

/** One that turned out to be damaged. */
const REFUSED = ".restore-refused.tar.gz";

/**
 * Checks an archive completely and keeps it for the next start, in place of an earlier one. With `dryRun` it only checks.
 * ServiceError `invalid_request` for a file that is not an intact backup.
 */
export async function stageRestore(
  home: string,
  archive: Uint8Array,
  { dryRun }: { readonly dryRun: boolean },
): Promise<Manifest> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-restore-"));
  try {
    const file = join(folder, "backup.tar.gz");
    const handle = await open(file, "wx", 0o600);
    await handle.writeFile(archive).finally(() => handle.close());
    const manifest = await checkBackup(file).catch((error: unknown) => {
      throw withoutPath(error, file);
    });
    if (!dryRun) await writePrivateFile(stagedRestorePath(home), Buffer.from(archive));
    return manifest;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The sender of an archive knows no path of this machine. */
function withoutPath(error: unknown, file: string): unknown {
  if (!(error instanceof ServiceError)) return error;
  return new ServiceError(error.code, error.message.replaceAll(file, "The body"), { cause: error });
}

/**
 * Restores the archive that waits in the home. Resolves to what the operator should know. A process that dies meanwhile
 * leaves the old content, and the archive for the next start. Undefined: another process uses the database, and the archive
 * still waits.
 */
export async function restoreStaged(context: HomeContext): Promise<Restored | undefined> {
  const { home } = context;
  const file = stagedRestorePath(home);
  await undoRestore(home);
  if (await isInUse(context)) return undefined;
  try {
    const restored = await restoreHome(file, context);
    await rm(file);
    return restored;
  } catch (error) {
    // The next start would fail in the same way.
    if (error instanceof ServiceError) await rename(file, join(home, REFUSED));
    throw error;
  }
}

async function isInUse(context: HomeContext): Promise<boolean> {
  const { config, env } = await loadConfig(context);
  const { databaseUrl } = resolvePaths({ ...context, config, env });
  return existsSync(databaseUrl) && isSqliteInUse(databaseUrl);
}
