import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { runEvent } from "./event.ts";
import { addMessages, insertMessages } from "../session/transcript.ts";
import { type Outcome, concludeRun } from "./outcome.ts";
import type { AgentDeps } from "../deps.ts";
import { parseInput, type RunInput, type RunKind } from "./run.ts";
import { nameOfId, releaseLease, sessionNotFound, takeLease } from "../session/session.ts";
import type { RunSlot } from "./concurrency.ts";
import { retryWhileUnavailable } from "../../store/tx/retry.ts";
import type { Execution } from "./execution.ts";

/** How long a process may be silent before others take its sessions over. Renewed at a third of it. */
export const LEASE_MS = 30_000;

const FREE = { lease_owner: null, lease_until: 0 };

/** Holds the lease of a session whose queue waits for recovery: no process. Until then no prompt overtakes what waits. */
export const UNOWNED = "nobody";

const HELD = { lease_owner: UNOWNED, lease_until: 0 };

/** A run that starts, and the session it starts in. */
export interface Started {
  readonly run: RunRow;
  readonly session: SessionRow;
  readonly input: RunInput;
}

/**
 * What a session's turn queue is in the database: one run at work under the lease, the others queued behind it. Each
 * method is one move, inside the caller's transaction, so that the run, its events and the lease change together.
 */
export class SessionQueue {
  readonly #store: Store;
  readonly #deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">;

  constructor(deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">) {
    this.#store = deps.store;
    this.#deps = deps;
  }

  /** Makes a session with its lease taken and its first run at work: a stateless chat, in as few statements as it takes. */
  async open(tx: Tx, { session, run, input }: Started): Promise<void> {
    const leased = { lease_owner: this.#store.owner, lease_until: tx.nowMs + LEASE_MS };
    const rows = {
      session: { ...session, ...leased, last_message: input.prompt.length },
      run: { ...run, status: "running", started_at: tx.nowMs },
    };
    await this.#store.journal.begin(tx, rows, [queuedEvent(run), startedEvent(run)]);
    const where = { sessionId: session.id, runId: run.id };
    await insertMessages(tx, where, { messages: input.prompt, after: 0 });
  }

  /** As {@link open}, with the run queued: the caller starts it by {@link next} when there is room for it. */
  async openQueued(tx: Tx, { session, run }: Started): Promise<void> {
    const leased = { lease_owner: this.#store.owner, lease_until: tx.nowMs + LEASE_MS };
    await this.#store.journal.begin(tx, { session: { ...session, ...leased, queued: 1 }, run }, [
      queuedEvent(run, 1),
    ]);
  }

  /** Returns the slot of the next queued run of a session, `slot` if it has none; undefined when no run is queued. */
  async slotOfNext(sessionId: string, slot: RunSlot): Promise<RunSlot | undefined> {
    const run = await nextQueued(this.#store.read, sessionId);
    return run && (parseInput(run).slot ?? slot);
  }

  /** A session made for one request that is spoken to again is a conversation: it is kept like any. */
  async keep(tx: Tx, session: SessionRow): Promise<void> {
    if (session.transient === 1) await tx.update("sessions", { id: session.id }, { transient: 0 });
  }

  /**
   * Takes the lease. False when a turn is at work in the session; what `tx` queues behind it is found at its end.
   * ServiceError `session_not_found` when the session was deleted meanwhile.
   */
  async lease(tx: Tx, sessionId: string): Promise<boolean> {
    const lease = { owner: this.#store.owner, ms: LEASE_MS };
    if (await takeLease(tx, sessionId, lease)) return true;
    // Elsewhere that turn may be ending in a transaction that is still open. With the row locked it either has ended, and
    // the session is free by now, or its end waits for us.
    const queued = await tx.increment("sessions", { id: sessionId }, "queued", 0);
    if (queued === undefined) throw sessionNotFound(sessionId);
    return takeLease(tx, sessionId, lease);
  }

  /** True when nothing waits in the session. */
  async isEmpty(sessionId: string): Promise<boolean> {
    return (await this.#store.find("sessions", { id: sessionId, queued: 0 })) !== undefined;
  }

  /** Records a run that starts at once, in a session whose lease is ours. */
  async begin(tx: Tx, run: RunRow, input: RunInput): Promise<void> {
    const { session_id: sessionId, id: runId } = run;
    await tx.insert("runs", [{ ...run, status: "running", started_at: tx.nowMs }]);
    await addMessages(tx, { sessionId, runId }, input.prompt);
    await this.#store.journal.append(tx, sessionId, [queuedEvent(run), startedEvent(run)]);
    await this.#started(tx, run);
  }

  /**
   * Records a run behind those that wait, or before them. Resolves to its place, 1 for the next. ServiceError
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

  /** Takes a run out of the queue. Resolves to it; undefined when it is not queued. */
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

  /** Gives a run that waits for leave to whoever looks after sessions next; ours no more. */
  async park(tx: Tx, sessionId: string): Promise<void> {
    await tx.update("sessions", { id: sessionId, lease_owner: this.#store.owner }, HELD);
  }

  /** Notes that a run goes on in this process. */
  async resume(tx: Tx, run: RunRow): Promise<void> {
    await this.#store.journal.append(tx, run.session_id, [startedEvent(run)]);
  }

  /** Starts the next queued run, or gives the lease back. With `hold` nothing starts: what is queued stays queued. */
  async next(tx: Tx, sessionId: string, { hold = false } = {}): Promise<Started | undefined> {
    if (await releaseLease(tx, sessionId, this.#store.owner)) return undefined;
    const session = await tx.find("sessions", { id: sessionId });
    if (session?.lease_owner !== this.#store.owner) return undefined;
    const run = hold ? undefined : await nextQueued(tx.db, sessionId);
    if (!run) {
      await tx.update("sessions", { id: sessionId }, hold ? HELD : { ...FREE, queued: 0 });
      return undefined;
    }
    await tx.increment("sessions", { id: sessionId }, "queued", -1);
    // While the end of the run before could not be written, nobody renewed it.
    await tx.update("sessions", { id: sessionId }, { lease_until: tx.nowMs + LEASE_MS });
    const started = { status: "running", started_at: tx.nowMs, updated_at: tx.nowMs };
    await tx.update("runs", { id: run.id, status: "queued" }, started);
    const input = parseInput(run);
    await addMessages(tx, { sessionId, runId: run.id }, input.prompt);
    await this.#store.journal.append(tx, sessionId, [startedEvent(run)]);
    await this.#started(tx, run);
    return { run, session, input };
  }

  /**
   * As {@link next}, for a transaction that is tried again when its answer is lost: what an attempt has started that was
   * committed all the same, and nobody else knows of, is found by the attempts after it, and by `begun`.
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

  /** Whether a run is at work under our lease, which is renewed then. */
  async #hasStarted(tx: Tx, { run, session }: Started): Promise<boolean> {
    const mine = { id: session.id, lease_owner: this.#store.owner };
    if ((await tx.update("sessions", mine, { lease_until: tx.nowMs + LEASE_MS })) === 0) return false;
    const row = await tx.find("runs", { id: run.id });
    return row !== undefined && row.started_at !== null && row.ended_at === null;
  }

  async #started(tx: Tx, run: RunRow): Promise<void> {
    const { trigger } = this.#deps;
    if (run.delivery !== null && trigger?.owns(run.delivery)) await trigger.started(tx, run);
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
/** With the place in the queue, 1 for the next; without it the run starts at once. */
const queuedEvent = (run: RunRow, position?: number) =>
  runEvent(run.id, "run.queued", { ...about(run), ...(position === undefined ? {} : { position }) });
const startedEvent = (run: RunRow) => runEvent(run.id, "run.started", about(run));

interface AliveOptions {
  readonly deps: Pick<AgentDeps, "clock" | "log">;
  readonly running: ReadonlyMap<string, Execution>;
  /** Sessions whose runs wait for room. */
  readonly waiting: () => Iterable<string>;
}

/**
 * The sessions under whose leases something is alive in this process: a run, one that waits for room, or one that starts.
 * The leases of all others run out, whoever holds them, and recovery takes these sessions over.
 */
export class AliveSessions {
  readonly #options: AliveOptions;
  readonly #starting = new Set<string>();
  /** Runs that are over and whose end could not be written yet. */
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
   * Those whose leases are to be renewed: not those whose run is over and whose end cannot be written. Their leases run
   * out while that is tried, so that a run whose end is given up is closed soon.
   */
  get leased(): ReadonlySet<string> {
    const ending = Array.from(this.#ending, (runId) => this.#options.running.get(runId)?.sessionId ?? "");
    return this.all.difference(new Set(ending));
  }

  /** Calls `write`, which starts a run of the session, again while the store is away and the lease may be ours. */
  async start<T>(sessionId: string, write: () => Promise<T>): Promise<T> {
    this.#starting.add(sessionId);
    try {
      return await this.#retry(write);
    } finally {
      this.#starting.delete(sessionId);
    }
  }

  /** Calls `write`, which ends a run, again while the store is away and the session's lease may be ours. */
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

  /** What cannot be written from now on is given up at once, and left to recovery. */
  cut(): void {
    this.#cut.abort();
  }

  #retry<T>(write: () => Promise<T>, onRetry?: (error: unknown) => void): Promise<T> {
    const { clock } = this.#options.deps;
    const { signal } = this.#cut;
    return retryWhileUnavailable(write, { clock, signal, forMs: LEASE_MS, ...(onRetry ? { onRetry } : {}) });
  }
}
