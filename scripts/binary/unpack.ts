/**
 * Puts the files of the program into a folder that only its user can write, where the runtime imports them from. Runs before
 * anything else in the executable, so it depends on Node alone.
 */
import { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { userInfo } from "node:os";
import { dirname, join, sep } from "node:path";
import process from "node:process";

export interface PackedProgram {
  readonly version: string;
  /** Digest of all files. */
  readonly digest: string;
  /** Relative paths with `/`. */
  readonly files: readonly string[];
  /** Returns the content of a file. */
  read(path: string): Uint8Array;
}

/** Folders of other versions that stay: a gateway that runs loads parts of its own when it first needs them. */
const MAX_OTHER_VERSIONS = 3;
/** What a start that was killed leaves behind; a start takes less. */
const STALE_MS = 3_600_000;
const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;

/**
 * Returns the folder with the files of `program`, below the first of `parents` that this user can write and nobody else
 * can. Each file is compared with the executable's at every start, and replaced whole if it differs: so neither a crash nor
 * another start at the same time leaves half of one. Throws when no parent is usable.
 */
export function unpackProgram(
  program: PackedProgram,
  parents: readonly string[] = cacheFolders(process.env),
): string {
  const reasons: string[] = [];
  for (const parent of parents) {
    try {
      const all = join(parent, "agentd");
      makePrivate(all);
      const folder = join(all, `${program.version}-${program.digest.slice(0, 16)}`);
      makePrivate(folder);
      for (const path of program.files) place(folder, path, program.read(path));
      removeOthers(all, folder);
      return folder;
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(
    `agentd cannot unpack itself: ${reasons.join("; ")}. Set XDG_CACHE_HOME or AGENTD_HOME to a folder that only you can write.`,
  );
}

/** Returns where the cache may be, best first: users without a home have at least AGENTD_HOME. */
export function cacheFolders(env: NodeJS.ProcessEnv): readonly string[] {
  const { XDG_CACHE_HOME: cache, HOME: home, AGENTD_HOME: own } = env;
  const found = [
    cache?.startsWith(sep) ? cache : undefined,
    home ? join(home, ".cache") : undefined,
    own?.startsWith(sep) ? join(own, "cache") : undefined,
    // HOME can be another user's, for example with sudo.
    ownCache(),
  ];
  return [...new Set(found.filter((folder) => folder !== undefined))];
}

function ownCache(): string | undefined {
  try {
    return join(userInfo().homedir, ".cache");
  } catch {
    // The user is not in the list of users, as in some containers.
    return undefined;
  }
}

/** Creates the folder with those above it; throws unless this user alone, or root, decides what is in it. */
function makePrivate(folder: string): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = checked(folder, fs.lstatSync(folder));
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) fs.chmodSync(folder, 0o700);
  for (let above = fs.realpathSync(dirname(folder)); ; above = dirname(above)) {
    checked(above, fs.statSync(above), STICKY);
    if (above === dirname(above)) return;
  }
}

/** Throws for what another user could exchange. A folder with the mode `unless` is safe all the same. */
function checked(folder: string, stats: fs.Stats, unless = 0): fs.Stats {
  const { uid, mode } = stats;
  if (!stats.isDirectory()) throw new Error(`${folder} is not a folder`);
  if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${folder} belongs to another user`);
  if ((mode & WRITABLE_BY_OTHERS) !== 0 && (mode & unless) === 0)
    throw new Error(`${folder} can be written by other users`);
  return stats;
}

/** Makes the file hold `content`; a reader finds the old file or the new one. */
function place(folder: string, path: string, content: Uint8Array): void {
  const file = join(folder, path);
  if (holds(file, content)) return;
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) {
    const below = join(folder, path.slice(0, at));
    fs.mkdirSync(below, { recursive: true, mode: 0o700 });
    checked(below, fs.lstatSync(below));
  }
  const fresh = join(folder, `${randomUUID()}.tmp`);
  try {
    fs.writeFileSync(fresh, content, { flag: "wx", mode: 0o600 });
    fs.renameSync(fresh, file);
  } finally {
    fs.rmSync(fresh, { force: true });
  }
}

/** For all files: each of its own would be garbage that the program starts with. */
const compared = Buffer.alloc(65_536);

function holds(file: string, content: Uint8Array): boolean {
  let opened: number | undefined;
  try {
    opened = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
    const stats = fs.fstatSync(opened);
    if (!stats.isFile() || stats.size !== content.length) return false;
    for (let from = 0; from < content.length;) {
      const count = fs.readSync(opened, compared, 0, Math.min(compared.length, content.length - from), from);
      if (count === 0 || compared.compare(content, from, from + count, 0, count) !== 0) return false;
      from += count;
    }
    return true;
  } catch {
    // Missing, a link or unreadable: it is written anew, which says what is wrong if that fails, too.
    return false;
  } finally {
    if (opened !== undefined) fs.closeSync(opened);
  }
}

/** Removes the versions that were not started for longest, and what killed starts left. A failure only costs space. */
function removeOthers(all: string, current: string): void {
  try {
    const now = new Date();
    fs.utimesSync(current, now, now);
    const others = fs
      .readdirSync(all)
      .map((name) => join(all, name))
      .filter((folder) => folder !== current)
      .map((folder) => ({ folder, usedMs: fs.lstatSync(folder).mtimeMs }))
      .toSorted((one, other) => other.usedMs - one.usedMs);
    for (const { folder } of others.slice(MAX_OTHER_VERSIONS)) fs.rmSync(folder, { recursive: true });
    for (const name of fs.readdirSync(current).filter((each) => each.endsWith(".tmp"))) {
      const file = join(current, name);
      if (now.getTime() - fs.lstatSync(file).mtimeMs > STALE_MS) fs.rmSync(file);
    }
  } catch {
    // Another start removes the same, or the folder is read-only.
  }
}
