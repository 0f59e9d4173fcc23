/** The home folder and private files: folders 0700, files 0600, atomic writes. Touches the machine. */
import { constants } from "node:fs";
import { access, chmod, lstat, mkdir, readFile, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { ServiceError } from "../base/errors.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const MAX_TEXT_BYTES = 1_048_576;
/** One lock for all files of a folder; work under it takes no other lock. */
const LOCK_NAME = ".lock";
const LOCK_WAIT_MS = 10_000;
const PROFILE_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

export interface HomeOptions {
  readonly env: Environment;
  /** The user's own home folder, absolute. */
  readonly userHome: string;
  /** Default: AGENTD_PROFILE; without either, no profile. */
  readonly profile?: string | undefined;
}

/**
 * Returns the absolute home folder: AGENTD_HOME, else `~/.agentd`; for a profile, the folder `profiles/<name>` in it.
 */
export function resolveHome({ env, userHome, profile = env["AGENTD_PROFILE"] }: HomeOptions): string {
  const home = env["AGENTD_HOME"]
    ? resolve(expandTilde(env["AGENTD_HOME"], userHome))
    : join(userHome, ".agentd");
  if (profile === undefined || profile === "") return home;
  if (!PROFILE_NAME.test(profile)) {
    throw new ServiceError(
      "invalid_config",
      `The profile name ${JSON.stringify(profile)} is not allowed. Use at most 64 of a-z, 0-9, - and _, beginning with a letter or digit.`,
      { param: "profile" },
    );
  }
  return join(home, "profiles", profile);
}

export function configPath(home: string): string {
  return join(home, "config.yaml");
}

export function databasePath(home: string): string {
  return join(home, "state.db");
}

/** Resolves `path` from `base`, with `~` as the user's home. */
export function resolveWithin(base: string, path: string, userHome: string): string {
  return resolve(base, expandTilde(path, userHome));
}

export function envPath(home: string): string {
  return join(home, ".env");
}

/**
 * Creates the home folder, and removes access of other users from it and its files. Returns a sentence for each repair,
 * and for each that the system refused. ServiceError `invalid_config` when the home cannot be created or is a folder
 * shared with other users.
 */
export async function prepareHome(home: string): Promise<readonly string[]> {
  await makePrivateFolder(home);
  const { mode } = await stat(home);
  // The home may be read-only when the database, the key and the workspace are elsewhere: writers report that.
  await access(home, constants.R_OK | constants.X_OK).catch((error: unknown) => {
    throw unusable(home, `cannot be read (${reasonOf(error)}). Set AGENTD_HOME to a folder of yours`, error);
  });
  if ((mode & 0o1000) !== 0) {
    throw new ServiceError(
      "invalid_config",
      `${home} is a folder that all users share. Set AGENTD_HOME to a folder of its own.`,
      { param: "AGENTD_HOME" },
    );
  }
  const notices = [
    await repairMode(home, FOLDER_MODE),
    await repairMode(envPath(home), FILE_MODE),
    await repairMode(configPath(home), FILE_MODE),
  ];
  return notices.filter((notice) => notice !== undefined);
}

/**
 * Reads a file; undefined when it does not exist. ServiceError `invalid_config` when it is not UTF-8 text of at most 1
 * MiB.
 */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  try {
    const bytes = await readFile(path);
    if (bytes.length > MAX_TEXT_BYTES) throw unusable(path, `is larger than ${MAX_TEXT_BYTES} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    if (error instanceof ServiceError) throw error;
    if (error instanceof TypeError) throw unusable(path, "is not UTF-8 text", error);
    const advice = "Check the path and its permissions, or set AGENTD_HOME to another folder";
    throw unusable(path, `cannot be read (${reasonOf(error)}). ${advice}`, error);
  }
}

/** Replaces the file atomically with `text`, mode 0600. A reader sees the old text or the new one, never a part. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await makePrivateFolder(dirname(path));
  // Imported on the first write, like the lock below: most starts only read.
  const { default: writeFileAtomic } = await import("write-file-atomic");
  try {
    await writeFileAtomic(path, text, { mode: FILE_MODE });
  } catch (error) {
    throw unusable(
      path,
      `cannot be written (${reasonOf(error)}). Check the folder, its permissions and the disk`,
      error,
    );
  }
}

/**
 * Runs `work` under the lock of the file's folder. Waits at most about ten seconds. The work must not take the lock
 * itself.
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  await makePrivateFolder(dirname(path));
  const { FileLockError, withExclusiveLock } = await import("../base/system/file-lock.ts");
  const lock = join(dirname(path), LOCK_NAME);
  try {
    return await withExclusiveLock({ path: lock, waitMs: LOCK_WAIT_MS }, work);
  } catch (error) {
    if (!(error instanceof FileLockError)) throw error;
    if (error.isHeld) throw unusable(path, "is in use by another process; try again", error);
    const what = `cannot be written: its lock ${lock} ${error.message}`;
    throw unusable(path, what, error);
  }
}

/**
 * Creates a folder that only the user can read. `setting` names where to choose another. ServiceError `invalid_config`
 * when it cannot be created.
 */
export async function makePrivateFolder(path: string, setting = "AGENTD_HOME"): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: FOLDER_MODE });
  } catch (error) {
    throw unusable(
      path,
      `cannot be created (${reasonOf(error)}). Set ${setting} to a folder you may write to`,
      error,
    );
  }
}

async function repairMode(path: string, wanted: number): Promise<string | undefined> {
  try {
    // A link's own mode means nothing, and its target may be meant for others.
    const found = await lstat(path);
    const mode = found.mode & 0o777;
    if (found.isSymbolicLink() || (mode & ~wanted) === 0) return undefined;
    await chmod(path, mode & wanted);
    return `${path} was open to other users (mode ${octal(mode)}); its mode is now ${octal(mode & wanted)}.`;
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    return `${path} is open to other users, and its mode cannot be changed (${reasonOf(error)}).`;
  }
}

function expandTilde(path: string, userHome: string): string {
  return path === "~" || path.startsWith("~/") ? join(userHome, path.slice(1)) : path;
}

function octal(mode: number): string {
  return `0${mode.toString(8)}`;
}

function unusable(path: string, what: string, cause?: unknown): ServiceError {
  return new ServiceError("invalid_config", `${path} ${what}.`, { cause });
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: "no permission",
  EPERM: "no permission",
  EROFS: "the file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EEXIST: "a file is in its place",
  ENOTDIR: "a part of the path is a file",
  ELOOP: "its symbolic links form a loop",
  ENAMETOOLONG: "the name is too long",
};

/** Returns the reason in words, if known; the system's own message repeats the path. */
function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
  const words = Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  return words === undefined ? code : `${words}, ${code}`;
}
