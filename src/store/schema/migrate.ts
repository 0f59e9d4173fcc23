/** Migrates a database to the current schema, one process at a time. Touches the machine. */
import { sql, type Kysely } from "kysely";
import type { Migration, MigratorProps } from "kysely/migration";
import { FLOOR_KEY, NEXT_TX } from "../feed/feed.ts";
import { unavailable } from "../tx/group.ts";
import { createStatements, type Dialect } from "./define.ts";
import { BUSY_TIMEOUT_MS, type SqliteFile } from "../sqlite.ts";
import { tables, type Tables } from "./tables.ts";

const LOCK_WAIT_MS = 60_000;
const LOCK_RETRY_MS = 20;
/** SQLITE_BUSY, in the lower byte. */
const BUSY = 5;

/**
 * The numbered steps from an empty database to `tables`, in the order of their names. A release freezes its steps: a
 * later change of the definition adds a step, which changes databases that were created before it.
 */
const steps: Readonly<Record<string, (db: Kysely<unknown>, dialect: Dialect) => Promise<void>>> = {
  "0001_init": createTables,
};

async function createTables(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  const statements = Object.entries(tables).flatMap(([name, table]) =>
    createStatements(name, table, dialect),
  );
  for (const statement of statements) await sql.raw(statement).execute(db);
  const random =
    dialect === "sqlite" ? sql`lower(hex(randomblob(8)))` : sql`replace(gen_random_uuid()::text, '-', '')`;
  await sql`insert into metadata (key, value) values ('epoch', ${random})`.execute(db);
}

/**
 * Brings a SQLite file to the current schema. The steps run in one transaction, so a crash leaves the old schema. Other
 * processes wait for its write lock, which ends with the process, without blocking their event loops. Rejects with
 * ServiceError `state_store_unavailable` when the file has a newer schema.
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

/** Takes the write lock; waits while another process has it. */
async function beginAlone(file: SqliteFile): Promise<void> {
  const untilMs = performance.now() + LOCK_WAIT_MS;
  // SQLite's own wait would block the event loop.
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
 * Brings the first schema of the search path to the current tables; creates it when it does not exist.
 * `db` MUST have a single connection: the lock between processes belongs to it.
 */
export async function migratePostgres(db: Kysely<Tables>, schema: string): Promise<void> {
  if (await isCurrent(db, schema)) return;
  await migrateToLatest({ db, provider: provider("postgres"), migrationTableSchema: schema });
}

/** Returns the name of the database, see {@link Store.epoch}. */
export async function readEpoch(db: Kysely<Tables>): Promise<string> {
  return (await selectEpoch(db).executeTakeFirstOrThrow()).value;
}

const selectEpoch = (db: Kysely<Tables>) =>
  db.selectFrom("metadata").select("value").where("key", "=", "epoch");

/**
 * As {@link readEpoch}, for PostgreSQL. A dump that was restored into another cluster may have changes of transactions that
 * this one has yet to begin: readers of the feed would wait for them, and positions would be given out twice. Such a
 * database gets a new epoch and an empty feed first.
 */
export async function readPostgresEpoch(db: Kysely<Tables>): Promise<string> {
  const isAhead = sql<boolean>`exists (select from changes where tx >= ${sql.raw(NEXT_TX)})`;
  const found = await selectEpoch(db).select(isAhead.as("is_ahead")).executeTakeFirstOrThrow();
  if (!found.is_ahead) return found.value;
  await renewEpoch(db, found.value);
  return readEpoch(db);
}

/** Of several processes that found the same epoch, only one renews it: the others find none of this name any more. */
async function renewEpoch(db: Kysely<Tables>, epoch: string): Promise<void> {
  await sql`
    with renewed as (
      update metadata set value = replace(gen_random_uuid()::text, '-', '')
      where key = 'epoch' and value = ${epoch} returning key
    ), emptied as (
      delete from changes where exists (select from renewed)
    )
    delete from metadata where key = ${FLOOR_KEY} and exists (select from renewed)`.execute(db);
}

function provider(dialect: Dialect) {
  const migrations = Object.entries(steps).map(([name, up]): [string, Migration] => [
    name,
    { up: (db: Kysely<unknown>) => up(db, dialect) },
  ]);
  return { getMigrations: async () => Object.fromEntries(migrations) };
}

/** Imports the migrator here: nearly every start finds the schema current. */
async function migrateToLatest(props: MigratorProps): Promise<void> {
  const { Migrator } = await import("kysely/migration");
  const { error } = await new Migrator(props).migrateToLatest();
  if (error) throw error;
}

/** Throws when a newer version of the program has migrated the database: its tables may mean something else. */
async function isCurrent(db: Kysely<Tables>, schema?: string): Promise<boolean> {
  const applied = await appliedSteps(db, schema);
  const known = Object.keys(steps);
  const newer = applied.find((name) => !known.includes(name));
  if (newer !== undefined) {
    throw unavailable(
      `The database has the schema step ${newer}, this version supports steps up to ${known.at(-1)}. ` +
        "It belongs to a newer agentd: start that version, or use another database.",
    );
  }
  return known.every((name) => applied.includes(name));
}

async function appliedSteps(db: Kysely<Tables>, schema: string | undefined): Promise<readonly string[]> {
  const table = schema === undefined ? sql.id("kysely_migration") : sql.id(schema, "kysely_migration");
  const exists =
    schema === undefined
      ? sql`select 1 from sqlite_schema where name = 'kysely_migration'`
      : // The view pg_tables would load half of the catalogue first.
        sql`select 1 from pg_class where relname = 'kysely_migration'
          and relnamespace = (select oid from pg_namespace where nspname = ${schema})`;
  if ((await exists.execute(db)).rows.length === 0) return [];
  const { rows } = await sql<{ name: string }>`select name from ${table} order by name`.execute(db);
  return rows.map((row) => row.name);
}
