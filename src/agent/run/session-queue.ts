/** Which run may start: the queue of each session, the sessions alive in this process, and the limit of runs. */
import type { OngoingMap } from "../../base/time.ts";
import { ServiceError } from "../../base/errors.ts";
import { leaseFor, UNLEASED } from "../../store/tx/tx.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { runEvent } from "./event.ts";
import { addStep, insertMessages } from "../session/transcript.ts";
import { concludeRun } from "./control.ts";
import { type Outcome, parseInput, type RunInput, type RunKind, type RunSlot } from "./run.ts";
import type { AgentDeps } from "../deps.ts";
import { nameOfId, releaseLease, sessionNotFound, takeLease } from "../session/session.ts";
import { retryWhileUnavailable } from "../../store/tx/group.ts";

/** Time after which other processes take over the sessions of a silent one. Leases are renewed at a third of it. */
export const LEASE_MS = 30_000;

/** Lease owner of a session whose queue waits for recovery. Until then no prompt overtakes the queued ones. */
export const UNOWNED = "unowned";

const WAITS_FOR_RECOVERY = { ...UNLEASED, lease_owner: UNOWNED };

/** A run that starts, with its session and input. */
export interface Started {
  readonly run: RunRow;
  readonly session: SessionRow;
  readonly input: RunInput;
}

/**
 * A session's queue in the database: one run active under the lease, the others queued behind it. Each method runs
 * inside the caller's transaction, so that the run, its events and the lease change together.
 */
export class SessionQueue {
  readonly #store: Store;
  readonly #deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">;

  constructor(deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">) {
    this.#store = deps.store;
    this.#deps = deps;
  }

  /** Inserts a leased session with its first run running, in as few statements as possible. */
  async open(tx: Tx, { session, run, input }: Started): Promise<void> {
    const leased = leaseFor(tx, this.#store.owner, LEASE_MS);
    const rows = {
      session: { ...session, ...leased, last_message: input.prompt.length },
      run: { ...run, status: "running", started_at: tx.nowMs },
    };
    await this.#store.journal.begin(tx, rows, [queuedEvent(run), startedEvent(run)]);
    const where = { sessionId: session.id, runId: run.id };
    await insertMessages(tx, where, { messages: input.prompt, after: 0 });
  }

  /** As {@link open}, with the run queued: the caller starts it by {@link next} when the limits allow it. */
  async openQueued(tx: Tx, { session, run }: Started): Promise<void> {
    const leased = leaseFor(tx, this.#store.owner, LEASE_MS);
    await this.#store.journal.begin(tx, { session: { ...session, ...leased, queued: 1 }, run }, [
      queuedEvent(run, 1),
    ]);
  }

  /** Returns the slot of the next queued run of a session, `slot` if it has none; undefined when no run is queued. */
  async slotOfNext(sessionId: string, slot: RunSlot): Promise<RunSlot | undefined> {
    const run = await nextQueued(this.#store.read, sessionId);
    return run && (parseInput(run).slot ?? slot);
  }

  /** Keeps a session made for one request: with another prompt it is a conversation. */
  async keep(tx: Tx, session: SessionRow): Promise<void> {
    if (session.transient === 1) await tx.update("sessions", { id: session.id }, { transient: 0 });
  }

  /**
   * Takes the lease. False when a run of the session is active; when that run ends, it starts what `tx` queues.
   * ServiceError `session_not_found` when the session was deleted meanwhile.
   */
  async lease(tx: Tx, sessionId: string): Promise<boolean> {
    const lease = { owner: this.#store.owner, ms: LEASE_MS };
    if (await takeLease(tx, sessionId, lease)) return true;
    // The running run may be ending in another open transaction. With the row locked it either has ended, and the session
    // is free by now, or its end waits for us.
    const queued = await tx.increment("sessions", { id: sessionId }, "queued", 0);
    if (queued === undefined) throw sessionNotFound(sessionId);
    return takeLease(tx, sessionId, lease);
  }

  /** Whether no run is queued in the session. */
  async isEmpty(sessionId: string): Promise<boolean> {
    return (await this.#store.find("sessions", { id: sessionId, queued: 0 })) !== undefined;
  }

  /** Records a run that starts at once, in a session leased by this process. */
  async begin(tx: Tx, run: RunRow, input: RunInput): Promise<void> {
    const { session_id: sessionId, id: runId } = run;
    await tx.insert("runs", [{ ...run, status: "running", started_at: tx.nowMs }]);
    const events = [queuedEvent(run), startedEvent(run)];
    await addStep(this.#writing(tx), { sessionId, runId }, { messages: input.prompt, events });
    await this.#started(tx, run);
  }

  /**
   * Records a run behind the queued ones, or before them. Resolves to its position, 1 for the next. ServiceError
   * `queue_full`.
   */
  async enqueue(
    tx: Tx,
    run: RunRow,
    { limit, isNext = false }: { readonly limit: number; readonly isNext?: boolean },
  ): Promise<number> {
    const waiting = (await tx.increment("sessions", { id: run.session_id }, "queued", 1)) ?? 1;
    if (waiting > limit) {
      throw new ServiceError(
        "queue_full",
        `${limit} prompts wait in this session, which is the limit (sessions.max_queue).`,
        { retryAfterSeconds: 1 },
      );
    }
    const first = isNext ? await nextQueued(tx.db, run.session_id) : undefined;
    await tx.insert("runs", [{ ...run, precedence: first ? first.precedence + 1 : 0 }]);
    const position = isNext ? 1 : waiting;
    await this.#store.journal.append(tx, run.session_id, [queuedEvent(run, position)]);
    return position;
  }

  /** Removes a run from the queue. Resolves to it; undefined when it is not queued. */
  async cancelQueued(tx: Tx, runId: string, reason: string): Promise<RunRow | undefined> {
    const row = await tx.db
      .selectFrom("runs")
      .selectAll()
      .where("id", "=", runId)
      .where("status", "=", "queued")
      .executeTakeFirst();
    const event = runEvent(runId, "run.cancelled", { reason });
    const outcome: Outcome = { status: "cancelled", set: { stop_requested: 1 }, event };
    if (!row || !(await concludeRun(tx, { run: row, deps: this.#deps }, outcome))) return undefined;
    await tx.increment("sessions", { id: row.session_id }, "queued", -1);
    await this.#store.journal.append(tx, row.session_id, [event]);
    return row;
  }

  /** Leaves the session of a run that waits for approval to recovery, and gives up the lease. */
  async park(tx: Tx, sessionId: string): Promise<void> {
    await tx.update("sessions", { id: sessionId, lease_owner: this.#store.owner }, WAITS_FOR_RECOVERY);
  }

  /** Records that a run continues in this process. */
  async resume(tx: Tx, run: RunRow): Promise<void> {
    await this.#store.journal.append(tx, run.session_id, [startedEvent(run)]);
  }

  /** Starts the next queued run, or releases the lease. With `hold` queued runs stay queued. */
  async next(tx: Tx, sessionId: string, { hold = false } = {}): Promise<Started | undefined> {
    if (await releaseLease(tx, sessionId, this.#store.owner)) return undefined;
    const session = await tx.find("sessions", { id: sessionId });
    if (session?.lease_owner !== this.#store.owner) return undefined;
    const run = hold ? undefined : await nextQueued(tx.db, sessionId);
    if (!run) {
      await tx.update("sessions", { id: sessionId }, hold ? WAITS_FOR_RECOVERY : { ...UNLEASED, queued: 0 });
      return undefined;
    }
    await tx.increment("sessions", { id: sessionId }, "queued", -1);
    // The lease is not renewed while the end of the previous run cannot be written.
    await tx.update("sessions", { id: sessionId }, { lease_until: tx.nowMs + LEASE_MS });
    const started = { status: "running", started_at: tx.nowMs, updated_at: tx.nowMs };
    await tx.update("runs", { id: run.id, status: "queued" }, started);
    const input = parseInput(run);
    const step = { messages: input.prompt, events: [startedEvent(run)] };
    await addStep(this.#writing(tx), { sessionId, runId: run.id }, step);
    await this.#started(tx, run);
    return { run, session, input };
  }

  /**
   * As {@link next}, for a transaction that is retried when its result is lost: later attempts, and `begun`, find the run
   * that a committed attempt has started.
   */
  successor(sessionId: string, { hold }: { readonly hold: () => boolean }) {
    let started: Started | undefined;
    const begun = async (tx: Tx) => (started && (await this.#hasStarted(tx, started)) ? started : undefined);
    const next = async (tx: Tx) => {
      started = (await begun(tx)) ?? (await this.next(tx, sessionId, { hold: hold() }));
      return started;
    };
    return { begun, next };
  }

  /** Whether a run is active under our lease, which is then renewed. */
  async #hasStarted(tx: Tx, { run, session }: Started): Promise<boolean> {
    const mine = { id: session.id, lease_owner: this.#store.owner };
    if ((await tx.update("sessions", mine, { lease_until: tx.nowMs + LEASE_MS })) === 0) return false;
    const row = await tx.find("runs", { id: run.id });
    return row !== undefined && row.started_at !== null && row.ended_at === null;
  }

  #writing(tx: Tx) {
    return { tx, journal: this.#store.journal };
  }

  async #started(tx: Tx, run: RunRow): Promise<void> {
    const { trigger } = this.#deps;
    if (run.reply_to !== null && trigger?.owns(run.reply_to)) await trigger.started(tx, run);
  }
}

function nextQueued(db: Tx["db"], sessionId: string): Promise<RunRow | undefined> {
  return db
    .selectFrom("runs")
    .selectAll()
    .where("session_id", "=", sessionId)
    .where("status", "=", "queued")
    .orderBy("precedence", "desc")
    .orderBy("created_at")
    .orderBy("id")
    .limit(1)
    .executeTakeFirst();
}

const about = (run: RunRow) => ({
  session_id: nameOfId(run.session_id),
  model: run.model,
  kind: run.kind as RunKind,
});

/** `position` is 1 for the next queued run; absent: the run starts at once. */
const queuedEvent = (run: RunRow, position?: number) =>
  runEvent(run.id, "run.queued", { ...about(run), ...(position === undefined ? {} : { position }) });
const startedEvent = (run: RunRow) => runEvent(run.id, "run.started", about(run));

interface AliveOptions {
  readonly deps: Pick<AgentDeps, "clock" | "log">;
  readonly running: Pick<OngoingMap<string, { readonly sessionId: string }>, "get" | "values">;
  /** Sessions whose runs wait for a permit. */
  readonly waiting: () => Iterable<string>;
}

/**
 * The sessions in which a run is active, starts or waits for a permit in this process. The leases of all other sessions
 * expire, and recovery takes these sessions over.
 */
export class AliveSessions {
  readonly #options: AliveOptions;
  readonly #starting = new Set<string>();
  /** Runs that are over but whose end is not written yet. */
  readonly #ending = new Set<string>();
  readonly #cut = new AbortController();

  constructor(options: AliveOptions) {
    this.#options = options;
  }

  get all(): ReadonlySet<string> {
    const running = Array.from(this.#options.running.values(), ({ sessionId }) => sessionId);
    return new Set([...running, ...this.#starting, ...this.#options.waiting()]);
  }

  /**
   * The sessions whose leases are renewed. Excludes those whose run is over but whose end cannot be written: their leases
   * expire during the attempts, so that recovery closes the run soon after they are given up.
   */
  get leased(): ReadonlySet<string> {
    const ending = Array.from(this.#ending, (runId) => this.#options.running.get(runId)?.sessionId ?? "");
    return this.all.difference(new Set(ending));
  }

  /** Calls `write`, which starts a run, and retries while the store is unavailable and the lease may be ours. */
  async start<T>(sessionId: string, write: () => Promise<T>): Promise<T> {
    this.#starting.add(sessionId);
    try {
      return await this.#retry(write);
    } finally {
      this.#starting.delete(sessionId);
    }
  }

  /** Calls `write`, which ends a run, and retries while the store is unavailable and the lease may be ours. */
  async end<T>(runId: string, write: () => Promise<T>): Promise<T> {
    const { log } = this.#options.deps;
    try {
      return await this.#retry(write, (error) => {
        if (!this.#ending.has(runId))
          log.warn("the end of a run could not be recorded yet; trying again", { run: runId, error });
        this.#ending.add(runId);
      });
    } finally {
      this.#ending.delete(runId);
    }
  }

  /** From now on gives up failed writes at once and leaves them to recovery. */
  cut(): void {
    this.#cut.abort();
  }

  #retry<T>(write: () => Promise<T>, onRetry?: (error: unknown) => void): Promise<T> {
    const { clock } = this.#options.deps;
    const { signal } = this.#cut;
    return retryWhileUnavailable(write, { clock, signal, forMs: LEASE_MS, ...(onRetry ? { onRetry } : {}) });
  }
}

/** The permit of one active run. */
export interface Permit {
  /** True: the run must wait; the permit counts nothing. */
  readonly waits: boolean;
  /** Frees the place for another run. Calling it again does nothing. */
  release(): void;
}

/** A session whose waiting run may start now. */
export interface Ready {
  readonly sessionId: string;
  readonly permit: Permit;
}

/** The permit of sub-agents: only the run that waits for them is counted. */
export const uncounted: Permit = { waits: false, release: () => {} };

/**
 * A permit taken only when a run starts: a prompt that joins a busy session needs none. Takes at most one, however often
 * it is called, since the transaction that decides may run again.
 */
export class PermitOnDemand {
  readonly #admit: () => Permit;
  #permit: Permit | undefined;

  constructor(admit: () => Permit) {
    this.#admit = admit;
  }

  /** As {@link ConcurrencyLimit.admit}. */
  take(): Permit {
    return (this.#permit ??= this.#admit());
  }

  /** Releases the permit if one was taken. */
  release(): void {
    this.#permit?.release();
  }
}

const MAX_WAITING = 1_000;

/**
 * Counts the active runs, in total and by group, and keeps the waiting sessions in order. Waiting runs are already on
 * disk, so a crash loses only their order.
 */
export class ConcurrencyLimit {
  readonly #max: number;
  readonly #onRelease: () => void;
  readonly #groups = new Map<string, number>();
  readonly #waiting = new Map<string, RunSlot>();
  #atWork = 0;

  /** `max` 0: no limit. `onRelease` is called whenever a run releases its permit. */
  constructor({ max, onRelease }: { readonly max: number; readonly onRelease: () => void }) {
    this.#max = max > 0 ? max : Number.POSITIVE_INFINITY;
    this.#onRelease = onRelease;
  }

  /** Number of runs that wait for a permit in this process. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The sessions whose runs wait, in order. */
  get sessions(): Iterable<string> {
    return this.#waiting.keys();
  }

  /**
   * Admits a new run, or makes it wait if it has a slot. ServiceError `too_many_concurrent_runs` when it has none, or
   * when too many runs wait.
   */
  admit(slot: RunSlot | undefined): Permit {
    if (this.hasFreeSlot(slot)) return this.acquire(slot);
    if (!slot) {
      throw tooMany(
        `${this.#max} runs are active, which is the limit (limits.max_concurrent_runs). Try again when one has ended.`,
      );
    }
    if (this.#waiting.size >= MAX_WAITING) throw tooMany(`${MAX_WAITING} runs wait for others to end.`);
    return { waits: true, release: () => {} };
  }

  hasFreeSlot(slot: RunSlot | undefined): boolean {
    if (this.#atWork >= this.#max) return false;
    return slot?.max === undefined || (this.#groups.get(slot.group) ?? 0) < slot.max;
  }

  /** Counts a run, even above the limit. */
  acquire(slot: RunSlot | undefined): Permit {
    this.#count(slot, 1);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#count(slot, -1);
      this.#onRelease();
    };
    return { waits: false, release };
  }

  wait(sessionId: string, slot: RunSlot): void {
    this.#waiting.set(sessionId, slot);
  }

  isWaiting(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  /** Takes the session off the waiting list. False when it was not on it: it never waited, or was admitted. */
  forget(sessionId: string): boolean {
    return this.#waiting.delete(sessionId);
  }

  /** Admits the session that has waited longest among those within their limits. */
  next(): Ready | undefined {
    for (const [sessionId, slot] of this.#waiting) {
      if (!this.hasFreeSlot(slot)) continue;
      this.#waiting.delete(sessionId);
      return { sessionId, permit: this.acquire(slot) };
    }
    return undefined;
  }

  /** Empties the waiting list and returns its sessions. */
  takeAll(): readonly string[] {
    const sessions = [...this.#waiting.keys()];
    this.#waiting.clear();
    return sessions;
  }

  #count(slot: RunSlot | undefined, by: 1 | -1): void {
    this.#atWork += by;
    if (!slot) return;
    const count = (this.#groups.get(slot.group) ?? 0) + by;
    if (count > 0) this.#groups.set(slot.group, count);
    else this.#groups.delete(slot.group);
  }
}

function tooMany(message: string): ServiceError {
  return new ServiceError("too_many_concurrent_runs", message, { retryAfterSeconds: 1 });
}
