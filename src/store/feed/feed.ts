import { type Driver, type RawTx, type Row, type Value, withoutNul } from "../tx/tx.ts";
import type { Change, ChangedRun } from "./change.ts";
import type { Tables } from "../schema/tables.ts";

/** Where a reader of the feed is: everything up to this position was read. */
export interface FeedPosition {
  readonly tx: number;
  readonly id: number;
}

/** A stored change. */
export interface ChangeRow extends FeedPosition {
  readonly owner: string;
  readonly type: string;
  /** Id of the resource. */
  readonly ref: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly actor: string | null;
  /** Milliseconds since the epoch. */
  readonly created_at: number;
}

/** The changes of one transaction and one owner, as they are stored. */
type Pack = Tables["changes"];
/** A change in a pack. */
type Entry = readonly [type: string, ref: string, data: ChangeRow["data"], actor: string | null];

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

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** Calls `run` once when nothing changed for a while; the returned function cancels it. */
  readonly idle: (run: () => void) => () => void;
}

/** The changes that a transaction wrote, and the id of the one before them. */
export interface WrittenChanges {
  readonly packs: readonly Pack[];
  readonly after: number;
}

/** The position before the first recent row, and behind the last. */
interface Span {
  from: FeedPosition;
  to: FeedPosition;
}

const PAGE_ROWS = 500;
const MAX_RECENT = 2_000;
/** How long a reader waits for transactions that began before committed ones. */
const PENDING_MS = 100;
/** Bounds what one read loads and one step parses. */
const MAX_PACK = 64;
const MAX_PACKS = 64;
const COLUMNS = "tx, id, count, owner, created_at, entries";
const HORIZON = "(pg_snapshot_xmin(pg_current_snapshot())::text)::bigint";

/** PostgreSQL: no transaction with this id or a higher one has ended yet. */
export const NEXT_TX = "(pg_snapshot_xmax(pg_current_snapshot())::text)::bigint";

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
  /** Of the recent rows; undefined without followers. */
  #span: Span | undefined;
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
    const [pack] = await this.#driver.query("select tx, id, count from changes order by tx, id limit 1", []);
    return pack && { tx: Number(pack["tx"]), id: Number(pack["id"]) - Number(pack["count"]) + 1 };
  }

  /** Returns whether no change can have this position yet. */
  async isFuture(position: FeedPosition): Promise<boolean> {
    if (this.#driver.dialect === "sqlite") return isAfter(position, await this.head());
    const [row] = await this.#driver.query(`select ${NEXT_TX} as tx`, []);
    return position.tx > Number(row?.["tx"]);
  }

  /** Returns the changes behind a position, oldest first. */
  async read({ after, limit, owner, types }: FeedRead): Promise<readonly ChangeRow[]> {
    const found: ChangeRow[] = [];
    for (let from = after; ;) {
      const count = Math.min(limit - found.length, MAX_PACKS);
      const packs = await this.#packsBehind(from, count, { owner, types });
      for (const pack of packs) {
        for (const row of changesIn(pack)) {
          if (isAfter(row, after) && (types === undefined || types.includes(row.type))) found.push(row);
        }
        if (found.length >= limit) return found.slice(0, limit);
      }
      const last = packs.at(-1);
      if (!last || packs.length < count) return found;
      from = toPosition(last);
    }
  }

  /** Leaves out those in which no change has one of the types. */
  async #packsBehind(
    after: FeedPosition,
    limit: number,
    { owner, types }: { readonly owner: string | undefined; readonly types: readonly string[] | undefined },
  ): Promise<readonly Pack[]> {
    const values: Value[] = [after.tx, after.id];
    let where = "(tx, id) > (?, ?)";
    if (this.#driver.dialect === "postgres") where += ` and tx < ${HORIZON}`;
    if (owner !== undefined) {
      where += " and owner = ?";
      values.push(owner);
    }
    if (types !== undefined) {
      where += ` and (${types.map(() => "entries like ?").join(" or ")})`;
      values.push(...types.map((type) => `%["${type}",%`));
    }
    const text = `select ${COLUMNS} from changes where ${where} order by tx, id limit ?`;
    return (await this.#driver.query(text, [...values, limit])) as unknown as readonly Pack[];
  }

  /**
   * Follows the changes of all owners behind a position. Yields pages in order, and an empty page whenever `idle` calls back
   * before the next change; it returns a function that cancels that. Ends when `signal` aborts or the store closes.
   */
  async *follow(after: FeedPosition, options: FollowOptions): AsyncGenerator<FeedPage> {
    await this.#enter();
    try {
      for (let position = after; !options.signal.aborted && !this.#isClosed;) {
        const rows = await this.#next(position, options);
        const last = rows?.at(-1);
        if (last) position = toPosition(last);
        if (last || !rows) yield { rows: rows ?? [], position };
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

  /**
   * Hands over the changes that this process has just committed: they follow the one with the id `after`. SQLite has one
   * writer at a time and ids without gaps, so when the followers know that one, nothing is missing and nothing is read.
   */
  take({ packs, after }: WrittenChanges): void {
    const span = this.#span;
    const isNext = this.#driver.dialect === "sqlite" && span?.to.id === after;
    // A read that is under way may start the span anew.
    if (!span || !isNext || this.#isReading) return this.look();
    this.#keep(packs.flatMap(changesIn), span);
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    this.#wake();
  }

  #wake(): void {
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
    const known = countUpTo(this.#recent, position);
    return this.#recent.slice(known, known + PAGE_ROWS);
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
      this.#wake();
    }
    this.#isReading = false;
  }

  async #readNew(after: FeedPosition): Promise<void> {
    const rows = await this.read({ after, limit: PAGE_ROWS });
    const span = this.#span;
    if (!span) return;
    this.#keep(rows, span);
    if (rows.length === PAGE_ROWS) this.#isStale = true;
    else if (await this.#hasPending()) setTimeout(() => this.look(), PENDING_MS).unref();
  }

  #keep(rows: readonly ChangeRow[], span: Span): void {
    const last = rows.at(-1);
    this.#recent.push(...rows);
    if (last) span.to = toPosition(last);
    if (this.#recent.length <= MAX_RECENT) return;
    const surplus = this.#recent.splice(0, this.#recent.length - MAX_RECENT).at(-1);
    if (surplus) span.from = toPosition(surplus);
  }

  /** Returns whether rows wait for a transaction that began before them. */
  async #hasPending(): Promise<boolean> {
    if (this.#driver.dialect === "sqlite") return false;
    return (await this.#driver.query(`select 1 from changes where tx >= ${HORIZON} limit 1`, [])).length > 0;
  }

  /**
   * Returns the changes behind a position: none when the caller has to look again, undefined when `idle` called back before
   * a change.
   */
  async #next(
    position: FeedPosition,
    { signal, idle }: FollowOptions,
  ): Promise<readonly ChangeRow[] | undefined> {
    const known = this.#recentAfter(position);
    if (known !== undefined && known.length > 0) return known;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const wake = () => resolve(true);
    let cancelIdle = () => {};
    // Before the read: a change that is committed meanwhile is not missed.
    this.#waiting.add(wake);
    signal.addEventListener("abort", wake, { once: true });
    try {
      const rows = known ?? (await this.read({ after: position, limit: PAGE_ROWS }));
      if (rows.length > 0) return rows;
      cancelIdle = idle(() => resolve(false));
      return (await promise) ? [] : undefined;
    } finally {
      cancelIdle();
      this.#waiting.delete(wake);
      signal.removeEventListener("abort", wake);
    }
  }
}

const START: FeedPosition = { tx: 0, id: 0 };

function toPosition({ tx, id }: Row | Pack | ChangeRow): FeedPosition {
  return { tx: Number(tx), id: Number(id) };
}

/** Returns how many of the rows, which are in order, are not behind a position. */
function countUpTo(rows: readonly ChangeRow[], position: FeedPosition): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAfter(rows[middle] as ChangeRow, position)) high = middle;
    else low = middle + 1;
  }
  return low;
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
export async function writeChanges(tx: RawTx, changes: readonly Change[]): Promise<WrittenChanges> {
  const [runs, [position]] = await Promise.all([
    readRuns(tx, changes),
    tx.all(tx.dialect === "sqlite" ? LAST : XID, []),
  ]);
  const [txId, after] = [Number(position?.["tx"] ?? 0), Number(position?.["id"] ?? 0)];
  const packs: Pack[] = [];
  let id = after;
  for (const [owner, entries] of entriesByOwner(changes, runs)) {
    for (let start = 0; start < entries.length; start += MAX_PACK) {
      const part = entries.slice(start, start + MAX_PACK);
      id += part.length;
      const text = JSON.stringify(part);
      packs.push({ tx: txId, id, count: part.length, owner, created_at: tx.nowMs, entries: text });
    }
  }
  await tx.insert("changes", packs);
  return { packs, after };
}

function entriesByOwner(
  changes: readonly Change[],
  runs: ReadonlyMap<string, ChangedRun> | undefined,
): ReadonlyMap<string, readonly Entry[]> {
  const byOwner = new Map<string, Entry[]>();
  for (const change of changes) {
    const run = change.run ?? (change.runId === undefined ? undefined : runs?.get(change.runId));
    const owner = storable(change.owner ?? run?.owner ?? "default");
    const actor = actorOf(change, run);
    const entry: Entry = [
      change.type,
      storable(change.ref),
      dataOf(change, run),
      actor === null ? null : storable(actor),
    ];
    const entries = byOwner.get(owner);
    if (entries) entries.push(entry);
    else byOwner.set(owner, [entry]);
  }
  return byOwner;
}

/** Returns a text as a column would have it: in UTF-8, and without NUL. */
function storable(text: string): string {
  return withoutNul(text.toWellFormed());
}

/** Returns the changes that a row stores. */
export function changesIn({ tx, id, count, owner, created_at, entries }: Pack): readonly ChangeRow[] {
  const before = Number(id) - Number(count);
  return (JSON.parse(entries) as readonly Entry[]).map(([type, ref, data, actor], index) => {
    return { tx: Number(tx), id: before + index + 1, owner, type, ref, data, actor, created_at };
  });
}

/** Returns the runs that changes name but do not bring along. Nearly always there are none. */
async function readRuns(
  tx: RawTx,
  changes: readonly Change[],
): Promise<ReadonlyMap<string, ChangedRun> | undefined> {
  const unknown = new Set<string>();
  for (const { runId, run } of changes) if (runId !== undefined && !run) unknown.add(runId);
  if (unknown.size === 0) return undefined;
  const rows = await tx.all(RUNS[tx.dialect], [JSON.stringify([...unknown])]);
  return new Map(rows.map((row) => [String(row["id"]), row as unknown as ChangedRun]));
}

function dataOf({ type, data, runId }: Change, run: ChangedRun | undefined): ChangeRow["data"] {
  if (!run) return runId === undefined ? data : { ...data, run_id: runId };
  if (!type.startsWith("run.")) return { ...data, run_id: runId, session_id: run.session_id };
  return { ...data, kind: run.kind, session_id: run.session_id, source: run.source };
}

function actorOf({ type, actor }: Change, run: ChangedRun | undefined): string | null {
  if (actor !== undefined) return actor;
  return type === "run.created" && run ? run.key : null;
}
