import { isUnavailable } from "../../store/tx/group.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import { LEASE_MS, UNOWNED } from "../run/session-queue.ts";
import type { AgentDeps } from "../deps.ts";
import { takeOver, type Taken } from "./take-over.ts";
import type { RunScheduler } from "../run/scheduler.ts";

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

/**
 * Renews the leases of the sessions that are alive in this process, and takes over the sessions whose lease expired: those
 * of dead processes, and those of this one where the end of a run could not be written. Their running runs end as
 * interrupted or, if they can be resumed, keep waiting for approval; queued runs start.
 *
 * Works at start and then every {@link ROUND_MS}, so a session of a lost process or run continues within {@link LEASE_MS} and
 * one round, 40 seconds, of the last heartbeat; at once if the process is known to be dead. A session that is read before
 * its round is settled first, see {@link settle}.
 */
export class Recovery {
  readonly #deps: AgentDeps;
  readonly #runs: RunScheduler;
  readonly #stopping = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #cancelTick: (() => void) | undefined;
  #renewing: Promise<void> = Promise.resolve();
  #round: Promise<void> | undefined;
  #isRecovered = false;
  /** Sessions that could not be taken over in this round. */
  readonly #failed = new Set<string>();

  constructor(deps: AgentDeps, runs: RunScheduler) {
    this.#deps = deps;
    this.#runs = runs;
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

  /**
   * Takes over at once those of `sessions` whose process or run is gone, for who is about to read them. True: some were, so
   * what was read of them is old by now. Rejects when the store is unavailable; one that fails is left to the next round.
   */
  async settle(sessions: readonly SessionRow[]): Promise<boolean> {
    if (this.#isOver) return false;
    const abandoned = sessions.filter((session) => this.#isAbandoned(session));
    for (const some of Map.groupBy(abandoned, (session) => session.lease_owner).values())
      await this.#takeOverAll(some);
    return abandoned.length > 0;
  }

  /** One round: until no abandoned session is left but those that failed. Resolves to how many were taken over. */
  async recover(): Promise<number> {
    let count = 0;
    this.#failed.clear();
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
    return this.#stopping.signal.aborted || this.#runs.draining;
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
    const ids = [...this.#runs.alive.leased];
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

  /** What a shutdown left is as it says, and waits for the next round. */
  #isAbandoned({ id, lease_owner: owner, lease_until: untilMs }: SessionRow): boolean {
    const { store, clock } = this.#deps;
    if (owner === null || owner === UNOWNED || this.#failed.has(id)) return false;
    return untilMs < clock.now() || store.ownerIsDead(owner);
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

  /** In pages, each after the previous one, so that a session that keeps failing is not read again. */
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
      const { alive } = this.#runs;
      taken = await store.write((tx) => takeOver(tx, this.#deps, { sessions, alive }));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const [only, ...others] = sessions;
      if (others.length === 0) {
        this.#failed.add(only?.id ?? "");
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
      await (waiting ? this.#runs.resume(waiting, session) : this.#runs.continueSession(session.id));
    } catch (error) {
      const { id } = session;
      this.#deps.log.error("a session that was taken over could not continue; trying again", {
        session: id,
        error,
      });
      // Kept or let go, nothing is alive under its lease: it is found again.
      await this.#runs.letGo(id).catch(() => {});
    }
  }
}
