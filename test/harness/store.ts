import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { openStore } from "../../src/store/open.ts";
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

/**
 * A database of its own, without rows: a SQLite file in a folder of its own, or a fresh schema of the server that
 * AGENTD_DATABASE_URL names. The file has its tables already, unless it is to be `bare`: then it does not exist yet.
 */
export async function createTestDatabase(options: { readonly bare?: boolean } = {}): Promise<TestDatabase> {
  if (serverUrl !== undefined) return createSchema(serverUrl);
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
  const database = await createTestDatabase();
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
  const schema = `test_${randomBytes(6).toString("hex")}`;
  const separator = server.includes("?") ? "&" : "?";
  const drop = async () => {
    const sql = postgres(server, { max: 1, onnotice: () => {} });
    await sql.unsafe(`drop schema if exists ${schema} cascade`);
    await sql.end();
  };
  return { url: `${server}${separator}schema=${schema}`, drop };
}
