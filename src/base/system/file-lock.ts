/** A lock between processes that ends with the process that holds it. Touches the machine. */
import type { DatabaseSync } from "node:sqlite";

export interface FileLockOptions {
  /** The lock file; it is created, and stays. Its folder must exist. */
  readonly path: string;
  /** Maximum wait. */
  readonly waitMs: number;
}

/**
 * The lock could not be taken: others held it all the time, or its file cannot be used. The message is a clause that
 * follows the path.
 */
export class FileLockError extends Error {
  override readonly name = "FileLockError";
  readonly isHeld: boolean;

  constructor(
    message: string,
    { isHeld = false, cause }: { readonly isHeld?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.isHeld = isHeld;
  }
}

const FIRST_RETRY_MS = 5;
const LAST_RETRY_MS = 100;
/** By SQLite's codes: a clause that follows the path, and what to do. */
const REASONS: ReadonlyMap<number, string> = new Map([
  [8, "is read-only. Check its permissions"],
  [10, "cannot be read: the disk failed. Check the disk"],
  [13, "cannot be written: the disk is full. Free some space, then try again"],
  [14, "cannot be opened. Check the folder and its permissions"],
  [26, "is another kind of file. Move it away"],
]);
/** SQLITE_BUSY, in the lower byte. */
const BUSY = 5;

/**
 * Runs `work` under an exclusive lock. The lock is an exclusive transaction on an empty SQLite database: SQLite uses
 * the operating system's file locks, which end with the process, so no lock becomes stale. It also works between
 * callers in one process. For local file systems. Rejects with {@link FileLockError} when the lock cannot be taken.
 */
export async function withExclusiveLock<T>(options: FileLockOptions, work: () => Promise<T>): Promise<T> {
  const release = await lock(options);
  try {
    return await work();
  } finally {
    release();
  }
}

async function lock({ path, waitMs }: FileLockOptions): Promise<() => void> {
  // Loaded here: most starts only read.
  const { DatabaseSync: Database } = await import("node:sqlite");
  const untilMs = performance.now() + waitMs;
  for (let delayMs = FIRST_RETRY_MS; ; delayMs = Math.min(delayMs * 1.5, LAST_RETRY_MS)) {
    const database = tryLock(() => new Database(path, { timeout: 0 }));
    if (database) return () => database.close();
    if (performance.now() >= untilMs) throw new FileLockError("another process holds it", { isHeld: true });
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  }
}

/** Returns undefined while another process holds it. */
function tryLock(open: () => DatabaseSync): DatabaseSync | undefined {
  let database: DatabaseSync | undefined;
  try {
    database = open();
    // Prepared, not `exec`: Deno's errors of `exec` do not say which of SQLite's codes they are.
    database.prepare("begin exclusive").all();
    return database;
  } catch (error) {
    database?.close();
    const { errcode, message } = error as { errcode?: unknown; message?: unknown };
    if ((Number(errcode) & 0xff) === BUSY) return undefined;
    const why = REASONS.get(Number(errcode) & 0xff) ?? `cannot be used: ${String(message)}`;
    throw new FileLockError(why, { cause: error });
  }
}
