import { appendEvents, beginSession, toEvent } from "./append.ts";
import type { Driver } from "./driver.ts";
import { Followers, scopeKey } from "./follow.ts";
import { GroupCommitter } from "./group.ts";
import type { Journal, JournalEvent, Scope } from "./journal.ts";
import { createLedger } from "./ledger.ts";
import { migratePostgres, migrateSqlite, readEpoch } from "./migrate.ts";
import { createOutbox } from "./outbox.ts";
import { createOwner, isOwnerDead, retireOwner } from "./owner.ts";
import { createQueue } from "./queue.ts";
import { openSqlite } from "./sqlite.ts";
import { findStatement } from "./statement.ts";
import type { Store, StoreOptions } from "./store.ts";
import type { Tables } from "./tables.ts";
import type { Tx } from "./tx.ts";

const READ_LIMIT = 512;

type OnProblem = (message: string, error: unknown) => void;

/**
 * Opens the database that `url` names, brings its schema up to date, and offers it as a {@link Store}.
 * Rejects with ServiceError `state_store_unavailable` when it cannot be opened or belongs to a newer version.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const onProblem = options.onProblem ?? (() => {});
  const driver = await openDriver(options, onProblem);
  try {
    return assemble(driver, await readEpoch(driver.read), { host: options.host, onProblem });
  } catch (error) {
    await driver.close();
    throw error;
  }
}

async function openDriver({ url, now }: StoreOptions, onProblem: OnProblem): Promise<Driver> {
  if (isPostgres(url)) {
    const { openPostgres } = await import("./postgres.ts");
    return openPostgres({ url, now, onProblem }, async (db, schema) => {
      await migratePostgres(db, schema);
      return readEpoch(db);
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
  { host, onProblem }: { readonly host: string | undefined; readonly onProblem: OnProblem },
): Store {
  const owner = createOwner(host);
  const followers = new Followers({
    read: (scope, after, limit) => readEvents(driver, scope, { after, limit }),
    watch: (wake) => driver.watch(wake),
  });
  const onDoubt = () => {
    followers.look();
    driver.announce(undefined);
  };
  const group = new GroupCommitter(driver, onProblem, onDoubt);
  const holder = { owner, ownerIsDead: (other: string) => isOwnerDead(other, owner) };
  let closing: Promise<void> | undefined;
  const close = async () => {
    await group.close();
    followers.close();
    await driver.close();
    retireOwner(owner);
  };
  return {
    dialect: driver.dialect,
    epoch,
    owner,
    read: driver.read,
    find: (table, where) => findRow(driver, table, where),
    journal: createJournal(driver, followers),
    ledger: createLedger(owner),
    outbox: createOutbox(holder),
    queue: createQueue(holder),
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
  const { sql, values } = findStatement(table, where);
  const [row] = await driver.query(sql, values);
  return row as Tables[K] | undefined;
}

function createJournal(driver: Driver, followers: Followers): Journal {
  const publish = (tx: Tx, sessionId: string, numbered: readonly JournalEvent[]) => {
    tx.afterCommit(() => {
      followers.publish(sessionId, numbered);
      driver.announce(scopesOf(sessionId, numbered));
    });
    return numbered;
  };
  return {
    append: async (tx, sessionId, events, options) =>
      publish(tx, sessionId, await appendEvents(tx, sessionId, events, options)),
    begin: async (tx, rows, events) => publish(tx, rows.session.id, await beginSession(tx, rows, events)),
    read: (scope, { after = 0, limit = READ_LIMIT } = {}) => readEvents(driver, scope, { after, limit }),
    follow: (scope, options) => followers.follow(scope, options),
  };
}

function scopesOf(sessionId: string, events: readonly JournalEvent[]): readonly string[] {
  const scopes = new Set([scopeKey({ sessionId })]);
  for (const { runId } of events) if (runId !== null) scopes.add(scopeKey({ runId }));
  return [...scopes];
}

async function readEvents(
  driver: Driver,
  scope: Scope,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly JournalEvent[]> {
  const [where, order, id] =
    "runId" in scope ? ["run_id", "run_seq", scope.runId] : ["session_id", "seq", scope.sessionId];
  const sql = `select * from events where ${where} = ? and ${order} > ? order by ${order} limit ?`;
  const rows = await driver.query(sql, [id, after, limit]);
  return rows.map(toEvent);
}
