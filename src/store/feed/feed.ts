import type { Driver, RawTx, Row, Value } from "../tx/tx.ts";
import type { Change, ChangedRun } from "./change.ts";
import type { Tables } from "../schema/tables.ts";

/** Where a reader of the feed is: everything up to this position was read. */
export interface FeedPosition {
  readonly tx: number;
  readonly id: number;
}

export type ChangeRow = Tables["changes"];

export interface FeedRead {
  readonly after: FeedPosition;
  readonly limit: number;
  /** Absent: of all owners. */
  readonly owner?: string;
  readonly types?: readonly string[];
}

export interface FeedPage {
  readonly rows: readonly ChangeRow[];
  /** The position behind the page. */
  readonly position: FeedPosition;
}

const PAGE_ROWS = 500;
const MAX_RECENT = 2_000;
/** How long a reader waits for transactions that began before committed ones. */
const PENDING_MS = 100;
const COLUMNS = "tx, id, owner, type, ref, data, actor, created_at";
const HORIZON = "(pg_snapshot_xmin(pg_current_snapshot())::text)::bigint";

/** Key of the position up to which changes were deleted, in the table `metadata`. */
export const FLOOR_KEY = "changes_floor";
/** What processes announce to each other after a change. */
export const FEED_SCOPE = "feed";

/**
 * The change feed. All followers of a process share one reader and its newest rows; one that is further behind reads the
 * database until it has caught up, so a slow follower costs no memory and misses nothing.
 *
 * In PostgreSQL a transaction may commit after one with a higher id. So only rows below the oldest open transaction are
 * read: nothing can appear before them any more.
 */
export class Feed {
  readonly #driver: Driver;
  readonly #waiting = new Set<() => void>();
  #followers = 0;
  #recent: ChangeRow[] = [];
  /** The position before the first recent row, and behind the last; undefined without followers. */
  #span: { from: FeedPosition; to: FeedPosition } | undefined;
  #isReading = false;
  #isStale = false;
  #unwatch = () => {};
  #isClosed = false;

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  /** Returns the position behind the newest change that readers can see. */
  async head(): Promise<FeedPosition> {
    if (this.#driver.dialect === "postgres") {
      const [row] = await this.#driver.query(`select ${HORIZON} as tx`, []);
      return { tx: Number(row?.["tx"]), id: 0 };
    }
    const [row] = await this.#driver.query(
      "select tx, id from changes order by tx desc, id desc limit 1",
      [],
    );
    return row ? toPosition(row) : START;
  }

  /** Returns the position up to which changes were deleted. */
  async floor(): Promise<FeedPosition> {
    const [row] = await this.#driver.query("select value from metadata where key = ?", [FLOOR_KEY]);
    return row ? (JSON.parse(String(row["value"])) as FeedPosition) : START;
  }

  /** Returns the position before the oldest stored change; undefined when none is stored. */
  async first(): Promise<FeedPosition | undefined> {
    const [row] = await this.#driver.query("select tx, id from changes order by tx, id limit 1", []);
    return row && toPosition(row);
  }

  /** Returns whether no change can have this position yet. */
  async isFuture(position: FeedPosition): Promise<boolean> {
    if (this.#driver.dialect === "sqlite") return isAfter(position, await this.head());
    const [row] = await this.#driver.query(
      "select (pg_snapshot_xmax(pg_current_snapshot())::text)::bigint as tx",
      [],
    );
    return position.tx > Number(row?.["tx"]);
  }

  /** Returns the changes behind a position, oldest first. */
  async read({ after, limit, owner, types }: FeedRead): Promise<readonly ChangeRow[]> {
    const values: Value[] = [after.tx, after.id];
    let where = "(tx, id) > (?, ?)";
    if (this.#driver.dialect === "postgres") where += ` and tx < ${HORIZON}`;
    if (owner !== undefined) {
      where += " and owner = ?";
      values.push(owner);
    }
    if (types !== undefined) {
      where += ` and type in (${types.map(() => "?").join(", ")})`;
      values.push(...types);
    }
    const text = `select ${COLUMNS} from changes where ${where} order by tx, id limit ?`;
    return (await this.#driver.query(text, [...values, limit])) as unknown as readonly ChangeRow[];
  }

  /**
   * Follows the changes of all owners behind a position. Yields pages in order, and an empty page whenever `idle` resolves
   * before the next change. Ends when `signal` aborts or the store closes.
   */
  async *follow(
    after: FeedPosition,
    { signal, idle }: { readonly signal: AbortSignal; readonly idle: (signal: AbortSignal) => Promise<void> },
  ): AsyncGenerator<FeedPage> {
    await this.#enter();
    try {
      for (let position = after; !signal.aborted && !this.#isClosed;) {
        const changed = this.#changed(signal);
        const rows = this.#recentAfter(position) ?? (await this.read({ after: position, limit: PAGE_ROWS }));
        const last = rows.at(-1);
        if (last) {
          changed.cancel();
          position = toPosition(last);
          yield { rows, position };
          continue;
        }
        const isChanged = await changed.within(idle);
        if (!isChanged) yield { rows, position };
      }
    } finally {
      this.#leave();
    }
  }

  /** Wakes the followers: a transaction with changes was committed here or elsewhere. */
  look(): void {
    if (this.#followers === 0 || this.#isClosed) return;
    this.#isStale = true;
    if (!this.#isReading) void this.#readOn();
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    for (const wake of this.#waiting) wake();
  }

  async #enter(): Promise<void> {
    this.#followers++;
    if (this.#followers > 1) return;
    this.#unwatch = this.#driver.watch((scopes) => {
      if (scopes === undefined || scopes.includes(FEED_SCOPE)) this.look();
    });
    try {
      await this.#begin();
      this.look();
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  async #begin(): Promise<void> {
    const head = await this.head();
    this.#span = { from: head, to: head };
    this.#recent = [];
  }

  #leave(): void {
    this.#followers--;
    if (this.#followers > 0) return;
    this.#unwatch();
    this.#span = undefined;
    this.#recent = [];
  }

  /** Returns the recent rows behind a position; undefined when older ones are missing. */
  #recentAfter(position: FeedPosition): readonly ChangeRow[] | undefined {
    const span = this.#span;
    if (!span || isAfter(span.from, position)) return undefined;
    const index = this.#recent.findIndex((row) => isAfter(row, position));
    return index < 0 ? [] : this.#recent.slice(index, index + PAGE_ROWS);
  }

  async #readOn(): Promise<void> {
    this.#isReading = true;
    while (this.#isStale && this.#followers > 0 && !this.#isClosed) {
      this.#isStale = false;
      try {
        await (this.#span ? this.#readNew(this.#span.to) : this.#begin());
      } catch {
        // The database is away: followers read it themselves when they are woken, and get the error.
        this.#span = undefined;
      }
      for (const wake of this.#waiting) wake();
    }
    this.#isReading = false;
  }

  async #readNew(after: FeedPosition): Promise<void> {
    const rows = await this.read({ after, limit: PAGE_ROWS });
    const span = this.#span;
    if (!span) return;
    const last = rows.at(-1);
    this.#recent.push(...rows);
    if (last) span.to = toPosition(last);
    const surplus = this.#recent.splice(0, Math.max(0, this.#recent.length - MAX_RECENT)).at(-1);
    if (surplus) span.from = toPosition(surplus);
    if (rows.length === PAGE_ROWS) this.#isStale = true;
    else if (await this.#hasPending()) setTimeout(() => this.look(), PENDING_MS).unref();
  }

  /** Returns whether rows wait for a transaction that began before them. */
  async #hasPending(): Promise<boolean> {
    if (this.#driver.dialect === "sqlite") return false;
    return (await this.#driver.query(`select 1 from changes where tx >= ${HORIZON} limit 1`, [])).length > 0;
  }

  #changed(signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const over = new AbortController();
    const wake = () => resolve(true);
    const cancel = () => {
      this.#waiting.delete(wake);
      signal.removeEventListener("abort", wake);
      over.abort();
    };
    this.#waiting.add(wake);
    signal.addEventListener("abort", wake, { once: true });
    const within = async (idle: (signal: AbortSignal) => Promise<void>): Promise<boolean> => {
      const late = idle(over.signal).then(
        () => false,
        () => true,
      );
      try {
        return await Promise.race([promise, late]);
      } finally {
        cancel();
      }
    };
    return { cancel, within };
  }
}

const START: FeedPosition = { tx: 0, id: 0 };

function toPosition({ tx, id }: Row | ChangeRow): FeedPosition {
  return { tx: Number(tx), id: Number(id) };
}

/** Returns whether `a` is behind `b`. */
export function isAfter(a: FeedPosition, b: FeedPosition): boolean {
  return a.tx > b.tx || (a.tx === b.tx && a.id > b.id);
}

const LAST = "select id from changes order by tx desc, id desc limit 1";
const XID = "select (pg_current_xact_id()::text)::bigint as tx";
const RUNS = {
  sqlite: runsText("json_each(?) as given join runs on runs.id = given.value"),
  postgres: runsText("json_array_elements_text(?::text::json) as given join runs on runs.id = given.value"),
};

function runsText(from: string): string {
  return (
    "select runs.id, runs.owner, runs.key, runs.kind, runs.session_id, sessions.source " +
    `from ${from} join sessions on sessions.id = runs.session_id`
  );
}

/**
 * Writes the changes of a transaction, in order, as its last statement. A position is (tx, id). SQLite has one writer at a
 * time, so its ids are in commit order and `tx` is 0. In PostgreSQL `tx` is the transaction's own id, by which readers
 * know what may still commit before it.
 */
export async function writeChanges(tx: RawTx, changes: readonly Change[]): Promise<void> {
  const unknown = changes.flatMap(({ runId, run }) => (runId === undefined || run ? [] : runId));
  const runIds = [...new Set(unknown)];
  const [runs, position] = await Promise.all([
    runIds.length === 0 ? [] : tx.all(RUNS[tx.dialect], [JSON.stringify(runIds)]),
    tx.all(tx.dialect === "sqlite" ? LAST : XID, []),
  ]);
  const byId = new Map(runs.map((run) => [run["id"], run as unknown as ChangedRun]));
  const last = Number(position[0]?.["id"] ?? 0);
  const rows = changes.map((change, index) => {
    const run = change.run ?? byId.get(change.runId ?? null);
    return {
      tx: Number(position[0]?.["tx"] ?? 0),
      id: last + index + 1,
      owner: change.owner ?? run?.owner ?? "default",
      type: change.type,
      ref: change.ref,
      data: JSON.stringify(dataOf(change, run)),
      actor: actorOf(change, run),
      created_at: tx.nowMs,
    };
  });
  await tx.insert("changes", rows);
}

function dataOf({ type, data, runId }: Change, run: ChangedRun | undefined): object {
  if (!run) return runId === undefined ? data : { ...data, run_id: runId };
  if (!type.startsWith("run.")) return { ...data, run_id: runId, session_id: run.session_id };
  return { ...data, kind: run.kind, session_id: run.session_id, source: run.source };
}

function actorOf({ type, actor }: Change, run: ChangedRun | undefined): string | null {
  if (actor !== undefined) return actor;
  return type === "run.created" && run ? run.key : null;
}
