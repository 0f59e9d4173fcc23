import {
  appendAllEvents,
  appendEnd,
  appendEvents,
  appendStep,
  beginSession,
  toEvent,
} from "./journal/append.ts";
import { type Driver, findStatement, type Row, type Tx } from "./tx/tx.ts";
import { Followers, scopeKey, type Page, type PageLimits } from "./journal/follow.ts";
import { Feed, FEED_SCOPE, type WrittenChanges } from "./feed/feed.ts";
import { GroupCommitter } from "./tx/group.ts";
import type { Journal, JournalEvent, Scope } from "./journal/journal.ts";
import type { Heard } from "./journal/listen.ts";
import { createLedger, createOwner, isOwnerDead, retireOwner } from "./leases.ts";
import { migratePostgres, migrateSqlite, readEpoch, readPostgresEpoch } from "./schema/migrate.ts";
import { createOutbox } from "./outbox/outbox.ts";
import { ReaderBudget } from "./journal/reader-budget.ts";
import { openSqlite } from "./sqlite.ts";
import type { Store, StoreOptions } from "./store.ts";
import type { SessionRow, Tables } from "./schema/tables.ts";

const READ_LIMIT = 512;
/** Default limit of a read: fits into one answer of the gateway. */
const READ_BYTES = 4_194_304;

type OnProblem = (message: string, error: unknown) => void;

/**
 * Opens the database at `url`, migrates its schema, and returns it as a {@link Store}. Rejects with ServiceError
 * `state_store_unavailable` when it cannot be opened or belongs to a newer version.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const onProblem = options.onProblem ?? (() => {});
  const driver = await openDriver(options, onProblem);
  try {
    return assemble(driver, driver.epoch ?? (await readEpoch(driver.read)), { ...options, onProblem });
  } catch (error) {
    await driver.close();
    throw error;
  }
}

async function openDriver({ url, now }: StoreOptions, onProblem: OnProblem): Promise<Driver> {
  if (isPostgres(url)) {
    const { openPostgres } = await import("./postgres/postgres.ts");
    return openPostgres({ url, now, onProblem }, async (db, schema) => {
      await migratePostgres(db, schema);
      return readPostgresEpoch(db);
    });
  }
  return openSqlite({ path: url, now: now ?? Date.now }, migrateSqlite);
}

function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

function assemble(
  driver: Driver,
  epoch: string,
  { host, maxReaderBytes, onProblem }: StoreOptions & { readonly onProblem: OnProblem },
): Store {
  const owner = createOwner(host);
  const readers = new ReaderBudget(maxReaderBytes);
  const followers = new Followers({
    read: (scope, after, limits) => readPage(driver, scope, { after, ...limits }),
    hear: (runId, types, after) => hear(driver, runId, { types, after }),
    watch: (wake) => driver.watch(wake),
    budget: readers,
  });
  const feed = new Feed(driver);
  const onUncertain = () => {
    followers.look();
    feed.look();
    driver.announce?.(undefined);
  };
  const onChanges = (written: WrittenChanges) => {
    feed.take(written);
    driver.announce?.([FEED_SCOPE]);
  };
  const group = new GroupCommitter(driver, onProblem, onUncertain, onChanges);
  const holder = { owner, ownerIsDead: (other: string) => isOwnerDead(other, owner) };
  let closing: Promise<void> | undefined;
  const close = async () => {
    await group.close();
    followers.close();
    feed.close();
    await driver.close();
    retireOwner(owner);
  };
  return {
    dialect: driver.dialect,
    epoch,
    owner,
    read: driver.read,
    find: (table, where) => findRow(driver, table, where),
    readers,
    journal: createJournal(driver, followers),
    ledger: createLedger(owner),
    outbox: createOutbox(holder),
    feed,
    write: (work, writeOptions) => group.write(work, writeOptions),
    ownerIsDead: holder.ownerIsDead,
    close: () => (closing ??= close()),
  };
}

async function findRow<K extends keyof Tables>(
  driver: Driver,
  table: K,
  where: Partial<Tables[K]>,
): Promise<Tables[K] | undefined> {
  const { id, ...others } = where as Partial<SessionRow>;
  if (table === "sessions" && driver.session && id !== undefined && Object.keys(others).length === 0) {
    return (await driver.session(id)) as Tables[K] | undefined;
  }
  const { sql, values } = findStatement(table, where);
  const [row] = await driver.query(sql, values);
  return row as Tables[K] | undefined;
}

function createJournal(driver: Driver, followers: Followers): Journal {
  const publish = (tx: Tx, sessionId: string, numbered: readonly JournalEvent[]) => {
    tx.afterCommit(() => {
      followers.publish(sessionId, numbered);
      driver.announce?.(scopesOf(sessionId, numbered));
    });
    return numbered;
  };
  return {
    append: async (tx, sessionId, events, options) =>
      publish(tx, sessionId, await appendEvents(tx, sessionId, events, options)),
    appendStep: async (tx, session, step) => {
      const appended = await appendStep(tx, session, step);
      publish(tx, session.sessionId, appended.events);
      return appended;
    },
    end: async (tx, session, end) => {
      const ended = await appendEnd(tx, session, end);
      if (ended) publish(tx, session.sessionId, ended.events);
      return ended;
    },
    appendAll: async (tx, appends) => {
      const numbered = await appendAllEvents(tx, appends);
      for (const { sessionId, events } of numbered) publish(tx, sessionId, events);
      return numbered;
    },
    begin: async (tx, rows, events) => publish(tx, rows.session.id, await beginSession(tx, rows, events)),
    read: async (scope, { after = 0, limit = READ_LIMIT, maxBytes = READ_BYTES } = {}) =>
      (await readPage(driver, scope, { after, events: limit, bytes: maxBytes })).events,
    follow: (scope, options) => followers.follow(scope, options),
    listen: (runId, options) => followers.listen(runId, options),
  };
}

function scopesOf(sessionId: string, events: readonly JournalEvent[]): readonly string[] {
  const scopes = new Set([scopeKey({ sessionId })]);
  for (const { runId } of events) if (runId !== null) scopes.add(scopeKey({ runId }));
  return [...scopes];
}

/** `maxBytes` limits the rows' data: rows after the one that reaches the limit are not loaded. */
async function readPage(
  driver: Driver,
  scope: Scope,
  { after, events: limit, bytes: maxBytes }: PageLimits & { readonly after: number },
): Promise<Page> {
  const [by, id] =
    "runId" in scope ? (["run", scope.runId] as const) : (["session", scope.sessionId] as const);
  const { plain, bounded } = PAGE_SQL[by];
  let bytes = 0;
  const isLast = (row: Row) => (bytes += Buffer.byteLength(String(row["data"]))) >= maxBytes;
  const rows =
    driver.dialect === "sqlite"
      ? await driver.query(plain, [id, after, limit], isLast)
      : await driver.query(bounded, [id, after, id, after, limit, maxBytes]);
  const hasMore =
    rows.length >= limit || bytes >= maxBytes || (driver.dialect === "postgres" && rows.some(isLast));
  return { events: rows.map(toEvent), hasMore };
}

/** Two reads: an event committed between them has a higher number, and the next call reads it. */
async function hear(
  driver: Driver,
  runId: string,
  { types, after }: { readonly types: readonly string[]; readonly after: number },
): Promise<Heard> {
  const [newest] = await driver.query("select max(run_seq) as last from events where run_id = ?", [runId]);
  const upTo = Math.max(after, Number(newest?.["last"] ?? 0));
  const among = types.map(() => "?").join(", ");
  const rows = await driver.query(
    `select * from events where run_id = ? and run_seq > ? and run_seq <= ? and type in (${among}) order by run_seq`,
    [runId, after, upTo, ...types],
  );
  return { events: rows.map(toEvent), upTo };
}

function pageSql(where: string, order: string) {
  const from = `from events where ${where} = ? and ${order} > ?`;
  // PostgreSQL knows the length of a text without loading it. SQLite does not, but returns rows one by one.
  const sizes = `select ${order}, octet_length(data) as bytes ${from} order by ${order} limit ?`;
  const sums = `select ${order}, sum(bytes) over (order by ${order}) - bytes as before from (${sizes}) as sizes`;
  const last = `select max(${order}) from (${sums}) as sums where before < ?`;
  return {
    plain: `select * ${from} order by ${order} limit ?`,
    bounded: `select * ${from} and ${order} <= (${last}) order by ${order}`,
  };
}

const PAGE_SQL = { run: pageSql("run_id", "run_seq"), session: pageSql("session_id", "seq") };
