/** Touches the machine: brings a database to the current schema, with one process at a time doing so. */
import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { MigratorProps } from "kysely/migration";
import { unavailable } from "../tx/failure.ts";
import { migrations } from "./schema.ts";
import { BUSY_TIMEOUT_MS } from "../sqlite/connection.ts";
import type { SqliteFile } from "../sqlite/sqlite.ts";
import type { Tables } from "./tables.ts";
import type { Dialect } from "../tx/tx.ts";

const LOCK_WAIT_MS = 60_000;
const LOCK_RETRY_MS = 20;
/** SQLITE_BUSY, in the lower byte. */
const BUSY = 5;

/**
 * Brings a SQLite file to the current schema. The steps run in one transaction, so a crash leaves the old schema, and
 * its write lock, which ends with the process, makes those wait that start together, without holding up their event
 * loops. Rejects with ServiceError `state_store_unavailable` when the file is of a newer schema.
 */
export async function migrateSqlite(db: Kysely<Tables>, file: SqliteFile): Promise<void> {
  if (await isCurrent(db)) return;
  await beginAlone(file);
  try {
    if (!(await isCurrent(db))) await migrateToLatest({ db, provider: provider("sqlite") });
    file.exec("commit");
  } catch (error) {
    file.exec("rollback");
    throw error;
  }
}

/** Takes the write lock, however long another process works under it. */
async function beginAlone(file: SqliteFile): Promise<void> {
  const untilMs = performance.now() + LOCK_WAIT_MS;
  // SQLite's own wait would hold up the event loop.
  file.exec("pragma busy_timeout = 0");
  try {
    while (!isBegun(file)) {
      if (performance.now() >= untilMs)
        throw unavailable("Another process holds the database for too long. Try again.");
      await new Promise((resolve) => setTimeout(resolve, LOCK_RETRY_MS));
    }
  } finally {
    file.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  }
}

function isBegun(file: SqliteFile): boolean {
  try {
    file.exec("begin immediate");
    return true;
  } catch (error) {
    if ((Number((error as { errcode?: unknown }).errcode) & 0xff) === BUSY) return false;
    throw error;
  }
}

/**
 * Brings the first schema of the search path to the current tables, making it when it does not exist.
 * `db` MUST have one connection alone: the lock between processes belongs to it.
 */
export async function migratePostgres(db: Kysely<Tables>, schema: string): Promise<void> {
  if (await isCurrent(db, schema)) return;
  const place = { migrationTableSchema: schema };
  await migrateToLatest({ db, provider: provider("postgres"), ...place });
}

/** Names the database, see {@link Store.epoch}. */
export async function readEpoch(db: Kysely<Tables>): Promise<string> {
  const fact = db.selectFrom("facts").select("value").where("key", "=", "epoch");
  return (await fact.executeTakeFirstOrThrow()).value;
}

function provider(dialect: Dialect) {
  return { getMigrations: async () => ({ ...migrations(dialect) }) };
}

/** Loaded here: nearly every start finds the schema as it should be. */
async function migrateToLatest(props: MigratorProps): Promise<void> {
  const { Migrator } = await import("kysely/migration");
  const { error } = await new Migrator(props).migrateToLatest();
  if (error) throw error;
}

/** Throws when a newer version of the program has been here: its tables may mean something else. */
async function isCurrent(db: Kysely<Tables>, schema?: string): Promise<boolean> {
  const done = await appliedSteps(db, schema);
  const known = Object.keys(migrations("sqlite"));
  const stranger = done.find((name) => !known.includes(name));
  if (stranger !== undefined) {
    throw unavailable(
      `The database has the schema step ${stranger}, this version knows only up to ${known.at(-1)}. ` +
        "It belongs to a newer agentd: start that version, or name another database.",
    );
  }
  return known.every((name) => done.includes(name));
}

async function appliedSteps(db: Kysely<Tables>, schema: string | undefined): Promise<readonly string[]> {
  const table = schema === undefined ? sql.id("kysely_migration") : sql.id(schema, "kysely_migration");
  const exists =
    schema === undefined
      ? sql`select 1 from sqlite_schema where name = 'kysely_migration'`
      : sql`select 1 from pg_tables where schemaname = ${schema} and tablename = 'kysely_migration'`;
  if ((await exists.execute(db)).rows.length === 0) return [];
  const { rows } = await sql<{ name: string }>`select name from ${table} order by name`.execute(db);
  return rows.map((row) => row.name);
}
