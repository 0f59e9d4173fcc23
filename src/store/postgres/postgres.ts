import type { Kysely } from "kysely";
import type { Driver, OpenTransaction } from "../tx/driver.ts";
import { isUnavailable, toStoreError, unavailable } from "../tx/failure.ts";
import { createKysely } from "../tx/kysely.ts";
import { Notifications } from "./notifications.ts";
import { PinnedConnection, connect, execute, toSettings } from "./connection.ts";
import type { Settings, Sql } from "./connection.ts";
import { PostgresTx, numbered } from "./tx.ts";
import type { Answer } from "./tx.ts";
import type { Tables } from "../schema/tables.ts";
import type { Row, Value } from "../tx/tx.ts";

const MAX_READERS = 8;
const MAX_READ_RETRIES = 2;
const CLOSE_TIMEOUT_SECONDS = 5;
// Milliseconds since the epoch.
const CLOCK = "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now";

export interface PostgresOptions {
  /** `postgres://...`; `?schema=name` (or `?search_path=name`) keeps the tables in that schema. */
  readonly url: string;
  /** Default: the database's clock, which is the same for all replicas. */
  readonly now: (() => number) | undefined;
  readonly onProblem: (message: string, error: unknown) => void;
}

/**
 * PostgreSQL 14 or newer through postgres.js: one connection writes, a few read, one listens. `migrate` gets a single
 * connection and the schema for the tables; it resolves to the epoch.
 */
export async function openPostgres(
  options: PostgresOptions,
  migrate: (db: Kysely<Tables>, schema: string) => Promise<string>,
): Promise<Driver> {
  const settings = toSettings(options.url);
  const alone = connect(settings, { max: 1 });
  try {
    const schema = settings.schema ?? (await currentSchema(alone));
    const db = createKysely("postgres", (sql, values) => execute(alone, sql, values), { transactions: true });
    const epoch = await migrate(db, schema);
    return new PostgresDriver(settings, epoch, options);
  } catch (error) {
    throw toStoreError(error);
  } finally {
    await alone.end({ timeout: CLOSE_TIMEOUT_SECONDS });
  }
}

async function currentSchema(sql: Sql): Promise<string> {
  const { rows } = await execute(sql, "select coalesce(current_schema(), 'public') as name", []);
  return String(rows[0]?.["name"]);
}

class PostgresDriver implements Driver {
  readonly dialect = "postgres";
  readonly read: Kysely<Tables>;
  readonly #settings: Settings;
  readonly #readers: Sql;
  readonly #notifications: Notifications;
  readonly #now: (() => number) | undefined;
  readonly #kysely: Kysely<Tables>;
  #writer: PinnedConnection | undefined;
  #work: PostgresTx | undefined;

  constructor(settings: Settings, epoch: string, { now, onProblem }: PostgresOptions) {
    this.#settings = settings;
    this.#now = now;
    this.#readers = connect(settings, { max: MAX_READERS });
    const query = (sql: string, values: readonly unknown[]) => this.#read(sql, values);
    this.#notifications = new Notifications({
      channel: `agentd_${epoch}`,
      sql: this.#readers,
      query,
      onProblem,
    });
    this.read = createKysely("postgres", (sql, values) => this.#read(sql, values));
    this.#kysely = createKysely("postgres", (sql, values) => this.#executeInWork(sql, values));
  }

  async query(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await this.#read(numbered(sql), values)).rows;
  }

  async begin(): Promise<OpenTransaction> {
    const { connection, nowMs } = await this.#begin();
    const share = {
      send: (sql: string, values: readonly Value[]) => connection.send(sql, values),
      kysely: this.#kysely,
      nowMs: this.#now?.() ?? nowMs,
      afterCommit: [],
    };
    return {
      afterCommit: share.afterCommit,
      enter: () => (this.#work = new PostgresTx(share)),
      commit: () => this.#end(connection, "commit"),
      rollback: () => this.#end(connection, "rollback").catch(() => undefined),
    };
  }

  watch(wake: (scopes: readonly string[] | undefined) => void): () => void {
    return this.#notifications.watch(wake);
  }

  announce(scopes: readonly string[] | undefined): void {
    this.#notifications.announce(scopes);
  }

  async close(): Promise<void> {
    await this.#notifications.close();
    await Promise.all([this.#readers.end({ timeout: CLOSE_TIMEOUT_SECONDS }), this.#writer?.drop()]);
  }

  // Reads the clock in the same round trip. A connection that died while idle is noticed here, before any work ran, so
  // a retry is safe.
  async #begin(retry = true): Promise<{ connection: PinnedConnection; nowMs: number }> {
    const connection = await this.#pin();
    try {
      const [, clock] = await Promise.all([connection.send("begin", []), connection.send(CLOCK, [])]);
      return { connection, nowMs: Number(clock.rows[0]?.["now"]) };
    } catch (error) {
      await connection.drop();
      if (retry && isUnavailable(error)) return this.#begin(false);
      throw isUnavailable(error) ? error : unavailable("PostgreSQL did not open a transaction.", error);
    }
  }

  async #pin(): Promise<PinnedConnection> {
    if (!this.#writer?.isUsable) this.#writer = await PinnedConnection.open(this.#settings);
    return this.#writer;
  }

  /** A connection with an unfinished transaction is not used again: the server rolls back when it closes. */
  async #end(connection: PinnedConnection, how: "commit" | "rollback"): Promise<void> {
    this.#work = undefined;
    try {
      await connection.send(how, []);
    } catch (error) {
      await connection.drop();
      throw error;
    }
  }

  // A pool notices closed connections one query at a time; reading again is safe.
  async #read(sql: string, values: readonly unknown[], retries = MAX_READ_RETRIES): Promise<Answer> {
    try {
      return await execute(this.#readers, sql, values);
    } catch (error) {
      if (retries > 0 && isUnavailable(error)) return this.#read(sql, values, retries - 1);
      throw error;
    }
  }

  async #executeInWork(sql: string, values: readonly unknown[]): Promise<Answer> {
    if (!this.#work)
      throw new TypeError("The transaction is over: use `tx` inside its work only, and await it.");
    return this.#work.send(sql, values as Value[]);
  }
}
