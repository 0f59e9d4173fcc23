/** Touches the machine: copies a SQLite database while others write to it. */
import { chmod, open } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { toStoreError, unavailable } from "./tx/failure.ts";
import { BUSY_TIMEOUT_MS } from "./sqlite/connection.ts";

/**
 * Copies a consistent snapshot of the database at `from` into the new file `to` while services go on writing; mode
 * 0600, synced to disk and checked when it resolves. The copy has an epoch of its own: cursors of the original may be
 * ahead of it. Rejects with ServiceError `state_store_unavailable`.
 */
export async function copySqlite(from: string, to: string): Promise<void> {
  try {
    runOn(from, (database) => database.prepare("vacuum into ?").run(to));
    await chmod(to, 0o600);
    runOn(to, (database) => {
      database.prepare("update metadata set value = lower(hex(randomblob(16))) where key = 'epoch'").run();
      const [finding] = database.prepare("pragma quick_check(1)").all();
      if (Object.values(finding ?? {})[0] !== "ok")
        throw unavailable(`The copy of ${from} is damaged. Try again.`);
    });
    await toDisk(to);
  } catch (error) {
    throw toStoreError(error);
  }
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
