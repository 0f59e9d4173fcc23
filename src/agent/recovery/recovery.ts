import { isUnavailable } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { cancelOpenQuestions } from "../question/questions.ts";
import { cancelledOutcome, interruptedOutcome } from "../run/outcome.ts";
import type { AgentDeps } from "../deps.ts";
import { addMessages } from "../session/transcript.ts";
import { LEASE_MS, UNOWNED } from "../run/session-queue.ts";
import { questionsOf, suspended, type KnownOfRun } from "./resume.ts";
import { startAgain } from "./restart.ts";
import { concludeRun } from "../run/finish.ts";
import {
  answeredRuns,
  cutCalls,
  pendingSteers,
  rebuildStep,
  steerEventsOf,
  unsavedEventsOf,
  type RunFact,
} from "./rebuild-step.ts";
import type { Turns } from "../run/scheduler.ts";

/** Between two rounds. */
const ROUND_MS = LEASE_MS / 3;
/** Abandoned sessions read at once. */
const PAGE = 512;
/** Sessions taken over in one transaction: few enough not to hold up the requests that are served meanwhile. */
const CHUNK = 64;
/** Sessions in one statement that renews their leases. */
const RENEWED = 500;
/** Pauses after a first round that failed. */
const FIRST_PAUSE_MS = 500;

const PROCESS_ENDED = "The server process that ran this ended before the run did.";
const END_LOST = "The end of this run could not be written to the database, and is not known.";

/**
 * Keeps the leases of the sessions in which something is alive in this process, and takes over the others whose lease ran
 * out: of processes that are gone, and of this one where the end of a run could not be written. What ran there ends as
 * interrupted or, where it waits for approval and can, goes on waiting; what is queued goes on.
 *
 * Works at start and then every {@link ROUND_MS}, so a session of a lost process or run goes on within {@link LEASE_MS} and
 * one round, 40 seconds, of the last sign of life; at once where the process is known to be dead.
 */
export class Recovery {
  readonly #deps: AgentDeps;
  readonly #turns: Turns;
  readonly #stopping = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #cancelTick: (() => void) | undefined;
  #renewing: Promise<void> = Promise.resolve();
  #round: Promise<void> | undefined;
  #isRecovered = false;

  constructor(deps: AgentDeps, turns: Turns) {
    this.#deps = deps;
    this.#turns = turns;
  }

  /** Begins; nothing is waited for. A first round that fails is repeated until one is through. */
  start(): void {
    this.#round = this.#firstRound().finally(() => (this.#round = undefined));
    this.#schedule();
  }

  /** Resolves when nothing is open any more that a dead process left open when this one started, or after {@link stop}. */
  get recovered(): Promise<void> {
    return this.#first.promise;
  }

  /** Whether {@link recovered} has resolved. */
  get isRecovered(): boolean {
    return this.#isRecovered;
  }

  /** Ends between two transactions; what is left is found by others. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#cancelTick?.();
    await Promise.all([this.#round, this.#renewing]);
    this.#first.resolve();
  }

  /** One round: until no abandoned session is left but those that failed. Resolves to how many were taken over. */
  async recover(): Promise<number> {
    let count = 0;
    for await (const page of this.#abandoned()) {
      for (let start = 0; start < page.length; start += CHUNK) {
        if (this.#isOver) return count;
        count += await this.#takeOverAll(page.slice(start, start + CHUNK));
      }
    }
    if (count > 0) this.#deps.log.info("took over sessions whose process or run is gone", { count });
    return count;
  }

  /** A process that drains takes nothing over that it would only have to leave again. */
  get #isOver(): boolean {
    return this.#stopping.signal.aborted || this.#turns.draining;
  }

  async #firstRound(): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stopping;
    for (let pauseMs = FIRST_PAUSE_MS; !this.#isOver; pauseMs = Math.min(2 * pauseMs, ROUND_MS)) {
      try {
        await this.recover();
        break;
      } catch (error) {
        log.warn("what dead processes left could not be taken over yet; trying again", { error });
        await clock.sleep(pauseMs, { signal }).catch(() => {});
      }
    }
    this.#isRecovered = true;
    this.#first.resolve();
  }

  /** Leases are renewed in time however long a round takes. */
  #schedule(): void {
    this.#cancelTick = this.#deps.clock.after(ROUND_MS, () => {
      this.#renewing = this.#renew();
      void this.#renewing.then(() => {
        if (this.#stopping.signal.aborted) return;
        this.#round ??= this.#laterRound().finally(() => (this.#round = undefined));
        this.#schedule();
      });
    });
  }

  async #laterRound(): Promise<void> {
    try {
      await this.recover();
    } catch (error) {
      this.#deps.log.warn("abandoned sessions could not be taken over; trying again", { error });
    }
  }

  /** Never rejects. */
  async #renew(): Promise<void> {
    const { store, log } = this.#deps;
    const ids = [...this.#turns.alive.leased];
    try {
      for (let start = 0; start < ids.length; start += RENEWED) {
        await store.write(async (tx) => {
          await tx.db
            .updateTable("sessions")
            .set({ lease_until: tx.nowMs + LEASE_MS })
            .where("id", "in", ids.slice(start, start + RENEWED))
            .where("lease_owner", "=", store.owner)
            .execute();
        });
      }
    } catch (error) {
      log.warn("leases could not be renewed; trying again", { error });
    }
  }

  /** Sessions whose lease ran out, or whose process is known to be dead, or that a shutdown left. */
  async *#abandoned(): AsyncGenerator<readonly SessionRow[]> {
    const { store, clock } = this.#deps;
    const leases = await store.read
      .selectFrom("sessions")
      .select(({ fn }) => ["lease_owner", fn.min("lease_until").as("oldest")])
      .where("lease_owner", "is not", null)
      .groupBy("lease_owner")
      .execute();
    for (const { lease_owner: owner, oldest } of leases) {
      if (owner === null) continue;
      const isDead = owner === UNOWNED || store.ownerIsDead(owner);
      const beforeMs = isDead ? Number.MAX_SAFE_INTEGER : clock.now();
      if (oldest < beforeMs) yield* this.#leasedBy(owner, beforeMs);
    }
  }

  /** In pages, each behind the one before: what stays as it is, because it fails, is not met again. */
  async *#leasedBy(owner: string, beforeMs: number): AsyncGenerator<readonly SessionRow[]> {
    let last: SessionRow | undefined;
    do {
      const { lease_until: untilMs, id } = last ?? { lease_until: -1, id: "" };
      const page: readonly SessionRow[] = await this.#deps.store.read
        .selectFrom("sessions")
        .selectAll()
        .where("lease_owner", "=", owner)
        .where("lease_until", "<", beforeMs)
        .where("lease_until", ">=", untilMs)
        .where((is) => is.or([is("lease_until", ">", untilMs), is("id", ">", id)]))
        .orderBy("lease_until")
        .orderBy("id")
        .limit(PAGE)
        .execute();
      yield page;
      last = page.length < PAGE ? undefined : page.at(-1);
    } while (last);
  }

  /** Resolves to how many were taken over. Rejects when the store is unavailable; a session that fails is left. */
  async #takeOverAll(sessions: readonly SessionRow[]): Promise<number> {
    const { store, log } = this.#deps;
    let taken: readonly Taken[];
    try {
      taken = await store.write((tx) => this.#takeOver(tx, sessions));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const [only, ...others] = sessions;
      if (others.length === 0) {
        log.error("a session could not be taken over; trying again", { session: only?.id, error });
        return 0;
      }
      // One of them fails: the others are taken over without it.
      let count = 0;
      for (const session of sessions) count += await this.#takeOverAll([session]);
      return count;
    }
    await Promise.all(taken.map((one) => this.#goOn(one)));
    return taken.length;
  }

  /** Never rejects. */
  async #goOn({ session, waiting, isFree }: Taken): Promise<void> {
    if (isFree) return;
    try {
      await (waiting ? this.#turns.resume(waiting, session) : this.#turns.continueSession(session.id));
    } catch (error) {
      const { id } = session;
      this.#deps.log.error("a session that was taken over could not go on; trying again", {
        session: id,
        error,
      });
      // Kept or let go, nothing is alive under its lease: it is found again.
      await this.#turns.letGo(id).catch(() => {});
    }
  }

  /**
   * Those that nobody else was faster with. What is read is read for all at once, and what is written for one does not
   * wait for the others: a database may be far away.
   */
  async #takeOver(tx: Tx, sessions: readonly SessionRow[]): Promise<readonly Taken[]> {
    const mine = await this.#lease(tx, sessions);
    const ids = mine.map(({ id }) => id);
    const known = await readDead(tx, this.#deps.store, ids);
    const reason = sessions[0]?.lease_owner === this.#deps.store.owner ? END_LOST : PROCESS_ENDED;
    const inOrder = createQueue();
    const waiting = new Map<string, RunRow>();
    // All come to their end before the work fails: none may speak in the next transaction.
    const ends = await Promise.allSettled(
      known.map(async (dead) => {
        const { run, isAlone } = dead;
        if (isAlone && (await suspended(tx, run, dead))) waiting.set(run.session_id, run);
        else if (!(await startAgain(tx, run, this.#deps))) await this.#close(tx, dead, { reason, inOrder });
      }),
    );
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    const free = await this.#release(
      tx,
      ids.filter((id) => !waiting.has(id)),
    );
    return mine.map((session) => {
      const run = waiting.get(session.id);
      return { session, isFree: free.has(session.id), ...(run ? { waiting: run } : {}) };
    });
  }

  /** Takes the leases, all of one owner, that still are to be had. */
  async #lease(tx: Tx, sessions: readonly SessionRow[]): Promise<readonly SessionRow[]> {
    const { store } = this.#deps;
    const alive = this.#turns.alive.all;
    const dead = sessions.filter(({ id }) => !alive.has(id));
    const owner = dead[0]?.lease_owner;
    if (owner === undefined || owner === null) return [];
    const ids = dead.map(({ id }) => id);
    const lease = { lease_owner: store.owner, lease_until: tx.nowMs + LEASE_MS };
    const update = tx.db
      .updateTable("sessions")
      .set(lease)
      .where("id", "in", ids)
      .where("lease_owner", "=", owner);
    // Our clock may be ahead of the store's, by which leases run.
    const due = store.ownerIsDead(owner) ? update : update.where("lease_until", "<", tx.nowMs);
    const taken = new Set((await due.returning("id").execute()).map(({ id }) => id));
    return dead.filter(({ id }) => taken.has(id));
  }

  /** Gives back the leases of those in which nothing waits. */
  async #release(tx: Tx, ids: readonly string[]): Promise<ReadonlySet<string>> {
    if (ids.length === 0) return new Set();
    const free = await tx.db
      .updateTable("sessions")
      .set({ lease_owner: null, lease_until: 0, updated_at: tx.nowMs })
      .where("id", "in", ids)
      .where("lease_owner", "=", this.#deps.store.owner)
      .where("queued", "=", 0)
      .returning("id")
      .execute();
    return new Set(free.map(({ id }) => id));
  }

  /** Ends a run whose process is gone, with what it had said and done as far as anybody knows. */
  async #close(
    tx: Tx,
    { run, questions, events, steers, isAnswered }: DeadRun,
    { reason, inOrder }: { readonly reason: string; readonly inOrder: Queue },
  ): Promise<void> {
    const { store } = this.#deps;
    if (questions.some(({ status }) => status === "open")) await cancelOpenQuestions(tx, store, run.id);
    const step = isAnswered ? [] : events;
    await addMessages(tx, { sessionId: run.session_id, runId: run.id }, rebuildStep(step));
    const pending = pendingSteers(steers);
    const outcome =
      run.stop_requested === 1
        ? cancelledOutcome(run.id, pending)
        : interruptedOutcome(run.id, reason, pending);
    const conclude = async () => void (await concludeRun(tx, { run, deps: this.#deps }, outcome));
    // What follows from an end may read and write what that of another run does.
    await (hasFollowers(run) ? inOrder(conclude) : conclude());
    await store.journal.append(tx, run.session_id, [...cutCalls(run.id, step), outcome.event]);
  }
}

/** A run that was at work when its process went, and what is known of it. */
interface DeadRun extends KnownOfRun {
  readonly run: RunRow;
  /** No other run of its session is at work. */
  readonly isAlone: boolean;
  readonly steers: readonly RunFact[];
  /** Its newest step is saved. */
  readonly isAnswered: boolean;
}

/** The runs at work in sessions, inside `tx`. From here on none takes steering. */
async function readDead(
  tx: Tx,
  { dialect }: Store,
  sessionIds: readonly string[],
): Promise<readonly DeadRun[]> {
  if (sessionIds.length === 0) return [];
  const query = tx.db
    .selectFrom("runs")
    .selectAll()
    .where("session_id", "in", sessionIds)
    .where("ended_at", "is", null)
    .where("status", "!=", "queued");
  // Whoever gives text holds the row until that is committed. SQLite has one writer, and no locks of rows.
  const runs = await (dialect === "postgres" ? query.forUpdate() : query).execute();
  const ids = runs.map(({ id }) => id);
  if (ids.length === 0) return [];
  const questions = await questionsOf(tx, ids);
  const events = await unsavedEventsOf(tx, ids);
  const steers = await steerEventsOf(tx, ids);
  const answered = await answeredRuns(tx, sessionIds);
  return runs.map((run) => ({
    run,
    isAlone: runs.every(({ id, session_id: sessionId }) => id === run.id || sessionId !== run.session_id),
    questions: questions.filter(({ run_id: runId }) => runId === run.id),
    events: events.get(run.id) ?? [],
    steers: steers.get(run.id) ?? [],
    isAnswered: answered.has(run.id),
  }));
}

function hasFollowers({ reply_to: replyTo, webhook, kind }: RunRow): boolean {
  return replyTo !== null || webhook !== null || kind === "subagent" || kind === "background";
}

interface Taken {
  readonly session: SessionRow;
  /** A run that is to be taken up again. */
  readonly waiting?: RunRow;
  /** True: nothing is queued, and the lease was given back. */
  readonly isFree?: boolean;
}

type Queue = (work: () => Promise<void>) => Promise<void>;

/** Calls one work after the other. */
function createQueue(): Queue {
  let last = Promise.resolve();
  return (work) => (last = last.then(work));
}
