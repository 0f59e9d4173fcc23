/** Copies a SQLite database while other processes write to it. Touches the machine. */
import { chmod, open } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { toStoreError, unavailable } from "./tx/group.ts";
import { BUSY_TIMEOUT_MS } from "./sqlite.ts";

/**
 * Copies a consistent snapshot of the database at `from` into the new file `to` while services keep writing; mode
 * 0600, synced to disk and checked when it resolves. The copy gets a new epoch: cursors of the original may be ahead of
 * it. Rejects with ServiceError `state_store_unavailable`.
 */
export async function copySqlite(from: string, to: string): Promise<void> {
  try {
    runOn(from, (database) => database.prepare("vacuum into ?").run(to));
    await chmod(to, 0o600);
    runOn(to, (database) => {
      setEpoch(database);
      const [finding] = database.prepare("pragma quick_check(1)").all();
      if (Object.values(finding ?? {})[0] !== "ok")
        throw unavailable(`The copy of ${from} is damaged. Try again.`);
    });
    await toDisk(to);
  } catch (error) {
    throw toStoreError(error);
  }
}

/**
 * Gives a restored database a new epoch and an empty feed: its positions are given out again, so that a cursor of an
 * earlier use would skip changes silently. Throws ServiceError `state_store_unavailable`.
 */
export function renewEpoch(path: string): void {
  try {
    runOn(path, (database) => {
      setEpoch(database);
      database.exec("delete from changes; delete from metadata where key = 'changes_floor'");
    });
  } catch (error) {
    throw toStoreError(error);
  }
}

function setEpoch(database: DatabaseSync): void {
  database.prepare("update metadata set value = lower(hex(randomblob(16))) where key = 'epoch'").run();
}

function runOn(path: string, work: (database: DatabaseSync) => unknown): void {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    work(database);
  } finally {
    database.close();
  }
}

/** SQLite does not sync the file of `vacuum into`. */
async function toDisk(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Throws ServiceError `state_store_unavailable` unless the file is an intact SQLite database. */
export function checkSqlite(path: string): void {
  try {
    runOn(path, (database) => {
      const [finding] = database.prepare("pragma quick_check(1)").all();
      if (Object.values(finding ?? {})[0] !== "ok") throw unavailable(`The database ${path} is damaged.`);
    });
  } catch (error) {
    throw toStoreError(error);
  }
}

/** SQLITE_BUSY, in the lower byte. */
const BUSY = 5;

/** Returns whether a process has the database open. Its connections hold a lock as long as they are open. */
export function isSqliteInUse(path: string): boolean {
  try {
    const database = new DatabaseSync(path, { timeout: 0 });
    try {
      database.exec("pragma locking_mode = exclusive");
      database.prepare("begin exclusive").run();
      database.prepare("rollback").run();
    } finally {
      database.close();
    }
    return false;
  } catch (error) {
    if ((Number((error as { errcode?: unknown }).errcode) & 0xff) === BUSY) return true;
    // A damaged database is not in use, and is what a restore is for.
    return false;
  }
}
