/** The driver for PostgreSQL. */
import type { Kysely } from "kysely";
import type { Change } from "../feed/change.ts";
import type { Tables } from "../schema/tables.ts";
import {
  type CountedTable,
  Counts,
  createKysely,
  type Driver,
  findStatement,
  incrementTexts,
  insertStatements,
  type OpenTransaction,
  type Row,
  type StepTexts,
  updateStatement,
  type Value,
  type WorkTx,
} from "../tx/tx.ts";
import { isUnavailable, toStoreError, unavailable } from "../tx/group.ts";
import {
  type Answer,
  connect,
  execute,
  Notifications,
  PinnedConnection,
  type Settings,
  type Sql,
  toSettings,
} from "./connection.ts";

const MAX_READERS = 8;
const MAX_READ_RETRIES = 2;
const CLOSE_TIMEOUT_SECONDS = 5;
// Milliseconds since the epoch.
const CLOCK = "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now";

interface PostgresOptions {
  /** `postgres://...`; `?schema=name` (or `?search_path=name`) keeps the tables in that schema. */
  readonly url: string;
  /** Default: the database's clock, which is the same for all replicas. */
  readonly now: (() => number) | undefined;
  readonly onProblem: (message: string, error: unknown) => void;
}

/**
 * PostgreSQL 14 or newer through postgres.js: one connection writes, a few read, one listens. `migrate` gets the one
 * that writes, and the schema for the tables; it resolves to the epoch.
 */
export async function openPostgres(
  options: PostgresOptions,
  migrate: (db: Kysely<Tables>, schema: string) => Promise<string>,
): Promise<Driver> {
  const settings = toSettings(options.url);
  const writer = await PinnedConnection.open(settings);
  try {
    const schema = settings.schema ?? (await currentSchema(writer));
    const db = createKysely("postgres", (sql, values) => writer.send(sql, values), { transactions: true });
    const epoch = await migrate(db, schema);
    return new PostgresDriver(settings, { epoch, writer }, options);
  } catch (error) {
    await writer.drop();
    throw toStoreError(error);
  }
}

async function currentSchema(writer: PinnedConnection): Promise<string> {
  const { rows } = await writer.send("select coalesce(current_schema(), 'public') as name", []);
  return String(rows[0]?.["name"]);
}

class PostgresDriver implements Driver {
  readonly dialect = "postgres";
  readonly epoch: string;
  readonly read: Kysely<Tables>;
  readonly #settings: Settings;
  readonly #readers: Sql;
  readonly #notifications: Notifications;
  readonly #now: (() => number) | undefined;
  #writer: PinnedConnection;

  constructor(
    settings: Settings,
    { epoch, writer }: { readonly epoch: string; readonly writer: PinnedConnection },
    { now, onProblem }: PostgresOptions,
  ) {
    this.epoch = epoch;
    this.#settings = settings;
    this.#writer = writer;
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
  }

  async query(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await this.#read(numbered(sql), values)).rows;
  }

  async begin(): Promise<OpenTransaction> {
    const { connection, nowMs } = await this.#begin();
    const share: PostgresShare = {
      send: (sql: string, values: readonly Value[]) => connection.send(sql, values),
      nowMs: this.#now?.() ?? nowMs,
      afterCommit: [],
      changes: [],
      counts: new Counts(),
    };
    return {
      mayOverlap: true,
      // The database works in a process of its own.
      isFull: () => false,
      afterCommit: share.afterCommit,
      changes: share.changes,
      counts: share.counts,
      enter: () => new PostgresTx(share),
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
    await Promise.all([this.#readers.end({ timeout: CLOSE_TIMEOUT_SECONDS }), this.#writer.drop()]);
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
    if (!this.#writer.isUsable) this.#writer = await PinnedConnection.open(this.#settings);
    return this.#writer;
  }

  /** A connection with an unfinished transaction is not used again: the server rolls back when it closes. */
  async #end(connection: PinnedConnection, how: "commit" | "rollback"): Promise<void> {
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
}

// Transactions

/** State that the units of work in one transaction share. */
interface PostgresShare {
  /** Sends a statement with `$1, $2...` for its values on the transaction's connection. */
  send(sql: string, values: readonly Value[]): Promise<Answer>;
  readonly nowMs: number;
  readonly afterCommit: (() => void)[];
  readonly changes: Change[];
  readonly counts: Counts;
}

/** One unit of work's view of a PostgreSQL transaction. Statements that are not awaited one by one are pipelined. */
class PostgresTx implements WorkTx {
  readonly dialect = "postgres";
  readonly nowMs: number;
  readonly #share: PostgresShare;
  readonly #pending = new Set<Promise<unknown>>();
  #db: Kysely<Tables> | undefined;
  #failure: unknown;
  #left = false;

  constructor(share: PostgresShare) {
    this.#share = share;
    this.nowMs = share.nowMs;
  }

  get db(): Kysely<Tables> {
    this.#assertOpen();
    return (this.#db ??= createKysely("postgres", (sql, values) => this.send(sql, values as Value[])));
  }

  // Not awaited: a later statement, or the work's end, reports a failure.
  insert<K extends keyof Tables>(table: K, rows: readonly Tables[K][]): Promise<void> {
    try {
      this.#assertOpen();
      for (const { sql, values } of insertStatements(table, rows))
        this.#ask(sql, values).catch(() => undefined);
      return Promise.resolve();
    } catch (error) {
      return Promise.reject((this.#failure ??= error));
    }
  }

  async update<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    set: Partial<Tables[K]>,
  ): Promise<number> {
    const { sql, values } = updateStatement(table, where, set);
    return (await this.#ask(sql, values)).changes;
  }

  async increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined> {
    const { texts, values } = incrementTexts(table, where, column);
    return (await this.step(texts, [by], { where: values }))?.[0];
  }

  async step(
    texts: StepTexts,
    by: readonly number[],
    { where, set = [] }: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<readonly number[] | undefined> {
    const [row] = (await this.#ask(texts.move, [...by, ...set, ...where])).rows;
    return row && texts.columns.map((column) => Number(row[column]));
  }

  async find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined> {
    const { sql, values } = findStatement(table, where);
    return (await this.#ask(sql, values)).rows[0] as Tables[K] | undefined;
  }

  async all(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await this.#ask(sql, values)).rows;
  }

  async run(sql: string, values: readonly Value[]): Promise<number> {
    return (await this.#ask(sql, values)).changes;
  }

  afterCommit(run: () => void): void {
    this.#assertOpen();
    this.#share.afterCommit.push(run);
  }

  record(change: Change): void {
    this.#assertOpen();
    this.#share.changes.push(change);
  }

  count<K extends CountedTable>(table: K, row: Tables[K]): void {
    this.#assertOpen();
    this.#share.counts.add(table, row);
  }

  /** Sends one statement and tracks it until it is answered. */
  async send(sql: string, values: readonly Value[]): Promise<Answer> {
    this.#assertOpen();
    const sent = this.#share.send(sql, values);
    this.#pending.add(sent);
    try {
      return await sent;
    } catch (error) {
      throw (this.#failure ??= error);
    } finally {
      this.#pending.delete(sent);
    }
  }

  async finish(): Promise<void> {
    this.#left = true;
    if (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    if (this.#failure !== undefined) throw this.#failure;
  }

  #ask(sql: string, values: readonly Value[]): Promise<Answer> {
    return this.send(numbered(sql), values);
  }

  #assertOpen(): void {
    if (this.#left)
      throw new TypeError("The transaction is over: use `tx` inside its work only, and await it.");
    // A statement after a failed one would only report that the transaction has failed; or, when the connection is
    // lost, would be written to a closed socket.
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const numberedTexts = new Map<string, string>();

/** Replaces `?` by `$1`, `$2`... for PostgreSQL. The store's texts are few, and contain no other `?`. */
function numbered(sql: string): string {
  let text = numberedTexts.get(sql);
  if (text === undefined) {
    let count = 0;
    text = sql.replaceAll("?", () => `$${++count}`);
    numberedTexts.set(sql, text);
  }
  return text;
}
