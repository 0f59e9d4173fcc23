import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { openStore } from "../../src/store/open.ts";
import { createStatements } from "../../src/store/schema/define.ts";
import { tables } from "../../src/store/schema/tables.ts";
import type { Store, StoreOptions } from "../../src/store/store.ts";

/** Where PostgreSQL is for the tests; without it they run on SQLite files. */
const serverUrl = process.env["AGENTD_DATABASE_URL"] || undefined;

export const testDialect = serverUrl === undefined ? "sqlite" : "postgres";

export interface TestDatabase {
  /** For `openStore`, and for the `database.url` of a service in another process. */
  readonly url: string;
  /** Takes the database away. Close what uses it first. */
  drop(): Promise<void>;
}

interface DatabaseOptions {
  /** Without tables; a file does not exist yet. */
  readonly bare?: boolean;
  /** PostgreSQL: only this process writes to it, and has closed what does before it drops it. */
  readonly isOwn?: boolean;
}

/**
 * A database of its own, without rows: a SQLite file in a folder of its own, or a schema of the server that
 * AGENTD_DATABASE_URL names. The file has its tables already, unless it is to be `bare`, and so has a schema that `isOwn`.
 */
export async function createTestDatabase(options: DatabaseOptions = {}): Promise<TestDatabase> {
  if (serverUrl !== undefined) return options.isOwn ? reuseSchema(serverUrl) : createSchema(serverUrl);
  const file = createFile();
  if (!options.bare) writeFileSync(file.url, copyOf(await (migrated ??= migrate())));
  return file;
}

export interface TestStore {
  readonly store: Store;
  readonly url: string;
  /** Another store on the same database, as a second process would have it. Closed with the first. */
  openAnother(options?: Partial<StoreOptions>): Promise<Store>;
}

/** What a test context offers, in `node:test` on every runtime. */
interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** A store on a database of its own; both go when the test ends. A problem in the background fails the test. */
export async function openTestStore(t: Cleanup, options: Partial<StoreOptions> = {}): Promise<TestStore> {
  const database = await createTestDatabase({ isOwn: true });
  const stores: Store[] = [];
  const problems: string[] = [];
  const onProblem = (message: string, error: unknown) => void problems.push(`${message} ${String(error)}`);
  t.after(async () => {
    for (const store of stores.reverse()) await store.close();
    await database.drop();
    if (problems.length > 0) throw new Error(`Problems in the background: ${problems.join("; ")}`);
  });
  const open = async (more: Partial<StoreOptions> = {}) => {
    const store = await openStore({ url: database.url, onProblem, ...more });
    stores.push(store);
    return store;
  };
  return { store: await open(options), url: database.url, openAnother: open };
}

function createFile(): TestDatabase {
  const folder = mkdtempSync(join(tmpdir(), "agentd-test-"));
  const drop = async () => rmSync(folder, { recursive: true, force: true });
  return { url: join(folder, "state.db"), drop };
}

/** The file that a store leaves which was opened once, and the name that it gave it. */
interface Migrated {
  readonly bytes: Buffer;
  readonly epoch: string;
}

/** Made once per process: to create the tables takes five times as long as to open a store that has them. */
let migrated: Promise<Migrated> | undefined;

async function migrate(): Promise<Migrated> {
  const file = createFile();
  try {
    const store = await openStore({ url: file.url });
    await store.close();
    return { bytes: readFileSync(file.url), epoch: store.epoch };
  } finally {
    await file.drop();
  }
}

/** Each database has a name of its own, by which clients see that it is another one. */
function copyOf({ bytes, epoch }: Migrated): Buffer {
  const copy = Buffer.from(bytes);
  const name = randomBytes(epoch.length / 2).toString("hex");
  copy.write(name, bytes.indexOf(epoch));
  return copy;
}

async function createSchema(server: string): Promise<TestDatabase> {
  const name = newSchema();
  return { url: urlOf(server, name), drop: () => onServer(server, (sql) => dropSchema(sql, name)) };
}

/** Half of the time of a short test went into the tables of its schema: most use those that another test has left. */
async function reuseSchema(server: string): Promise<TestDatabase> {
  const free = await onServer(server, takeFree);
  const name = free?.name ?? newSchema();
  const url = urlOf(server, name);
  if (!free) await (await openStore({ url })).close();
  const made = free?.made ?? (await onServer(server, (sql) => shapeOf(sql, name)));
  return { url, drop: () => onServer(server, (sql) => release(sql, { name, made })) };
}

const newSchema = () => `test_${randomBytes(6).toString("hex")}`;
const urlOf = (server: string, schema: string) =>
  `${server}${server.includes("?") ? "&" : "?"}schema=${schema}`;

interface Schema {
  readonly name: string;
  /** What its tables were like when they were made; see {@link shapeOf}. */
  readonly made: string;
}

type Sql = ReturnType<typeof postgres>;

let connection: Sql | undefined;
let socket: Socket | undefined;
let uses = 0;

/** Uses the connection of this process: a new one reads the catalogues first, which takes longer than all that is asked. */
async function onServer<T>(server: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  connection ??= connectTo(server);
  uses += 1;
  socket?.ref();
  try {
    return await work(connection);
  } finally {
    uses -= 1;
    // Between two uses it keeps no process alive.
    if (uses === 0) socket?.unref();
  }
}

function connectTo(server: string): Sql {
  const open = async ({ host: [host], port: [port] }: { host: [string]; port: [number] }) => {
    socket = connect({ host, port });
    await once(socket, "connect");
    return socket;
  };
  const options = { max: 1, max_lifetime: null, fetch_types: false, onnotice: () => {}, socket: open };
  return postgres(server, options as Parameters<typeof postgres>[1]);
}

async function dropSchema(sql: Sql, name: string): Promise<void> {
  await sql.unsafe(`drop schema if exists ${name} cascade`);
}

/** The statements that make the tables: schemas that another version of the tests has left are not used. */
const version = createHash("sha256")
  .update(
    Object.entries(tables)
      .flatMap(([name, table]) => createStatements(name, table, "postgres"))
      .join(),
  )
  .digest("hex");

/** Takes a schema that a test has left, as if it were new: without rows, and with a name of its own for the database. */
async function takeFree(sql: Sql): Promise<Schema | undefined> {
  const [free] = await sql
    .unsafe<Schema[]>(
      `delete from public.free_test_schemas where name = (select name from public.free_test_schemas
        where version = $1 limit 1 for update skip locked) returning name, made`,
      [version],
    )
    .catch(unlessMissing);
  if (!free) return undefined;
  const deletes = Object.keys(tables).map((table) =>
    table === "metadata" ? "delete from metadata where key <> 'epoch'" : `delete from ${table}`,
  );
  const rename = "update metadata set value = replace(gen_random_uuid()::text, '-', '') where key = 'epoch'";
  await sql.unsafe([`set search_path to ${free.name}`, ...deletes, rename].join(";"));
  return free;
}

/** Leaves the schema to other tests, unless its tables were changed or something is still at work on them. */
async function release(sql: Sql, { name, made }: Schema): Promise<void> {
  if ((await shapeOf(sql, name)) !== made) return dropSchema(sql, name);
  const add = () =>
    sql.unsafe("insert into public.free_test_schemas values ($1, $2, $3) returning name", [
      name,
      version,
      made,
    ]);
  if ((await add().catch(unlessMissing)).length > 0) return;
  // The first one. Processes that create the table at the same time would fail.
  await sql.unsafe(
    "select pg_advisory_lock(hashtext('free_test_schemas')); " +
      "create table if not exists public.free_test_schemas (name text primary key, version text, made text)",
  );
  await add();
}

function unlessMissing(error: unknown): [] {
  if ((error as { code?: string }).code === "42P01") return [];
  throw error;
}

/**
 * Returns a digest of what a schema is: its steps, tables and indexes with their columns, constraints, triggers, functions,
 * and the locks that others hold. Begins with what depends on the schema, since the catalogues have no index by schema.
 */
async function shapeOf(sql: Sql, schema: string): Promise<string> {
  const [row] = await sql.unsafe(
    `with things as materialized (
      select classid, objid from pg_depend
        where refclassid = 'pg_namespace'::regclass and refobjid = $1::text::regnamespace
    ), relations as materialized (
      select oid, relname from things join pg_class on oid = objid where classid = 'pg_class'::regclass
    )
    select md5(string_agg(part, ',' order by part)) as shape from (
      select concat_ws(' ', relname, attname, atttypid, attnotnull) as part
        from relations join pg_attribute on attrelid = relations.oid and attnum > 0
      union all select concat_ws(' ', classid, objid) from things
      union all select name from ${schema}.kysely_migration
      union all select index.relname from relations join pg_index on indrelid = relations.oid
        join pg_class as index on index.oid = indexrelid
      union all select conname from relations join pg_constraint on conrelid = relations.oid
      union all select tgname from relations join pg_trigger on tgrelid = relations.oid where not tgisinternal
      union all select mode from pg_locks join relations on relation = relations.oid where pid <> pg_backend_pid()
    ) as parts`,
    [schema],
  );
  return String(row?.["shape"]);
}
