/** The home folder: its paths, its private files, and the variables in its `.env` file. Touches the machine. */
import { SHORT_NAME } from "../base/text.ts";
import { constants, readFileSync, statSync } from "node:fs";
import { access, chmod, lstat, mkdir, readFile, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { parseEnv } from "node:util";
import type { Config } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { beforeRedacting } from "../base/observe.ts";

// Private files: folders 0700, files 0600, atomic writes

export type Environment = Readonly<Record<string, string | undefined>>;

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const MAX_TEXT_BYTES = 1_048_576;
/** One lock for all files of a folder; work under it takes no other lock. */
const LOCK_NAME = ".lock";
const LOCK_WAIT_MS = 10_000;

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
  if (!SHORT_NAME.test(profile)) {
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

/** Replaces the file atomically with `content`, mode 0600. A reader sees the old content or the new one, never a part. */
export async function writePrivateFile(path: string, content: string | Buffer): Promise<void> {
  await makePrivateFolder(dirname(path));
  // Imported on the first write, like the lock below: most starts only read.
  const { default: writeFileAtomic } = await import("write-file-atomic");
  try {
    await writeFileAtomic(path, content, { mode: FILE_MODE });
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

export function isCode(error: unknown, code: string): boolean {
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

// The `.env` file: secrets that do not belong in the configuration

/** A larger file is not a file of variables. */
const MAX_CHARACTERS = 1_048_576;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface EnvFile {
  readonly variables: Environment;
  /** Variables after a line `# secret`: they hold secrets, independent of their names. */
  readonly secretNames: ReadonlySet<string>;
}

/** Reads the file at `path`; empty when it does not exist. */
export async function readEnvFile(path: string): Promise<EnvFile> {
  return parse((await readPrivateFile(path)) ?? "");
}

/**
 * Calls `read` before text is redacted when the file has changed since the last time. Call the returned function to
 * stop.
 */
export function watchEnvFile(path: string, read: (file: EnvFile) => void): () => void {
  let last = "";
  return beforeRedacting(() => {
    const stamp = stampOf(path);
    if (stamp === last) return;
    last = stamp;
    read(readEnvFileNow(path));
  });
}

/** Returns a stamp that changes with the file; "" when it does not exist. */
function stampOf(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}` : "";
}

/** Reads like {@link readEnvFile}, synchronously; an unreadable file has no variables. */
function readEnvFileNow(path: string): EnvFile {
  try {
    return parse(readFileSync(path, "utf8").slice(0, MAX_CHARACTERS));
  } catch {
    return parse("");
  }
}

/**
 * Writes one variable and keeps every other line. Mode 0600, atomic, one process at a time. `isMarked` adds a line `#
 * secret` above it.
 */
export async function setEnvVariable(
  path: string,
  name: string,
  value: string,
  { isMarked = false }: { readonly isMarked?: boolean } = {},
): Promise<void> {
  await withFileLock(path, () => write(path, name, value, isMarked));
}

/** Removes one variable and keeps every other line, as {@link setEnvVariable}. Resolves to whether the file had it. */
export async function removeEnvVariable(path: string, name: string): Promise<boolean> {
  return withFileLock(path, async () => {
    const text = (await readPrivateFile(path)) ?? "";
    const { [name]: old, ...wanted } = parse(text).variables;
    if (old === undefined) return false;
    const next = withoutVariable(text, name);
    // The parser decides what a line means: a matching line may be part of a quoted value.
    if (isSame(parse(next).variables, wanted)) {
      await writePrivateFile(path, next);
      return true;
    }
    throw new ServiceError(
      "invalid_config",
      `${name} cannot be removed from ${path} without changing other variables. Remove it by hand.`,
    );
  });
}

/** Removes everything that sets `name`, with its mark. A quoted value may have several lines. */
function withoutVariable(text: string, name: string): string {
  const mark = "(?:^[ \\t]*#[ \\t]*secret\\b.*\\r?\\n)?";
  const value = "[ \\t]*(?:\"[^\"]*\"|'[^']*'|`[^`]*`)?.*(?:\\r?\\n|$)";
  return text.replace(new RegExp(`${mark}^[ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=${value}`, "gim"), "");
}

/**
 * Returns the value of `name`; `make` supplies it when the file has none (or an empty one). Concurrent processes get
 * the same value, and `created` is true for one of them.
 */
export async function ensureEnvVariable(
  path: string,
  name: string,
  make: () => string,
): Promise<{ readonly value: string; readonly created: boolean }> {
  return withFileLock(path, async () => {
    const known = (await readEnvFile(path)).variables[name];
    if (known) return { value: known, created: false };
    const value = make();
    await write(path, name, value);
    return { value, created: true };
  });
}

async function write(path: string, name: string, value: string, isMarked = false): Promise<void> {
  if (!NAME.test(name)) {
    throw new ServiceError(
      "invalid_config",
      `${JSON.stringify(name)} is not a valid name of an environment variable.`,
    );
  }
  const text = (await readPrivateFile(path)) ?? "";
  const before = parse(text);
  const mark = isMarked && !before.secretNames.has(name) ? `${MARK}\n` : "";
  const line = `${mark}${name}=${quote(name, value)}`;
  const wanted = { ...before.variables, [name]: value };
  // The parser decides what a line means: a matching line may be part of a quoted value.
  const next = [replaceLine(text, name, line), appendLine(text, line)].find((each) =>
    isSame(parse(each).variables, wanted),
  );
  if (next === undefined) {
    throw new ServiceError(
      "invalid_config",
      `${path} has a quote that is never closed. Close it and try again.`,
    );
  }
  await writePrivateFile(path, next);
}

/** Replaces the last line that sets `name`: it is the effective one. */
function replaceLine(text: string, name: string, line: string): string {
  const lines = text.split(/\r?\n/);
  const own = new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`);
  const at = lines.findLastIndex((each) => own.test(each));
  if (at >= 0) return lines.with(at, line).join("\n");
  return appendLine(text, line);
}

function appendLine(text: string, line: string): string {
  const head = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return `${head}${line}\n`;
}

function isSame(a: Environment, b: Environment): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => a[name] === b[name]);
}

/** Node reads a bare `#` as the start of a comment, and has no escape for the enclosing quote. */
function quote(name: string, value: string): string {
  if (/^[\w./:@+=,-]*$/.test(value)) return value;
  const mark = ["'", '"', "`"].find((each) => !value.includes(each));
  if (mark === undefined || /[\r\n\\]/.test(value)) {
    throw new ServiceError(
      "invalid_config",
      `The value for ${name} has a line break, a backslash or all kinds of quotes, which .env files cannot hold.`,
    );
  }
  return `${mark}${value}${mark}`;
}

const MARK = "# secret";
const MARKED = /^[ \t]*#[ \t]*secret\b.*\r?\n[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=/gim;

function parse(text: string): EnvFile {
  const marked = [...text.matchAll(MARKED)].map(([, name = ""]) => name);
  return { variables: { ...parseEnv(text) }, secretNames: new Set(marked) };
}

// References to secrets in the environment

/**
 * Returns the variable that `env:NAME` refers to; other values unchanged. ServiceError `invalid_config` when the
 * variable is not set; `path` is the key that holds the reference.
 */
export function resolveSecret(value: string, env: Environment, path: string): string {
  if (!value.startsWith("env:")) return value;
  const name = value.slice("env:".length);
  const found = env[name];
  if (found) return found;
  throw new ServiceError(
    "invalid_config",
    `${path} refers to the variable ${name}, which is not set. Set it in the environment or in .env.`,
    { param: path },
  );
}

// Absolute paths of a configured service

export interface ConfigPaths {
  readonly agentHome: string;
  readonly userHome: string;
  readonly workspace: string;
  /** `postgres://...`, or the path of an SQLite file. */
  readonly databaseUrl: string;
}

/** Resolves the configuration's paths, relative to `home`. ServiceError `invalid_config` as in resolveSecret. */
export function resolvePaths(from: {
  readonly config: Config;
  readonly env: Environment;
  readonly home: string;
  readonly userHome: string;
}): ConfigPaths {
  const { config, env, home, userHome } = from;
  const { workspace = "workspace" } = config.agent;
  return {
    agentHome: home,
    userHome,
    workspace: resolveWithin(home, workspace, userHome),
    databaseUrl: resolveSecret(config.database.url ?? databasePath(home), env, "database.url"),
  };
}
