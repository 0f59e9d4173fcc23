import type { Tx } from "../store/store.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import { cancelOpenAsks } from "./ask.ts";
import { cancelledOutcome, interruptedOutcome } from "./outcome.ts";
import type { AgentParts } from "./parts.ts";
import { addMessages } from "./history.ts";
import { LEASE_MS } from "./lane.ts";
import { suspended } from "./resume.ts";
import { startAgain } from "./run-restart.ts";
import { unheardSteers } from "./run-control.ts";
import { concludeRun } from "./run-end.ts";
import { cutCalls, endsWithAnswer, salvageStep, unsavedEvents } from "./salvage.ts";
import type { Turns } from "./turn.ts";

/** Sessions looked at in one round; more are found in the next. */
const BATCH = 200;

/**
 * Keeps this process's leases alive, and takes over the sessions of processes that are gone: what they were running
 * ends as interrupted or, where it waits for leave and can, goes on waiting; what they had queued goes on. Runs at start and then at a third of the lease.
 */
export class Recovery {
  readonly #parts: AgentParts;
  readonly #turns: Turns;
  #cancel: (() => void) | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: AgentParts, turns: Turns) {
    this.#parts = parts;
    this.#turns = turns;
  }

  /** Resolves after the first round: nothing that a dead process left open is open any more. */
  async start(): Promise<void> {
    await this.recover();
    this.#schedule();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    await this.#round;
  }

  /** One round. Resolves to how many sessions were taken over. */
  async recover(): Promise<number> {
    const { store, log } = this.#parts;
    let count = 0;
    for (const session of await this.#abandoned()) {
      const taken = await store.write((tx) => this.#takeOver(tx, session));
      if (!taken) continue;
      const { waiting } = taken;
      count++;
      log.info("took over a session whose process is gone", {
        session: session.id,
        owner: session.lease_owner,
      });
      try {
        await (waiting ? this.#turns.resume(waiting, session) : this.#turns.continueSession(session.id));
      } catch (error) {
        // Kept, the lease would be renewed with nothing at work under it.
        log.error("a session that was taken over could not go on", { session: session.id, error });
        await this.#turns.letGo(session.id);
      }
    }
    return count;
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#cancel = this.#parts.clock.after(LEASE_MS / 3, () => {
      this.#round = this.#tick().finally(() => this.#schedule());
    });
  }

  async #tick(): Promise<void> {
    const { store, log } = this.#parts;
    try {
      await store.write(async (tx) => {
        await tx.update("sessions", { lease_owner: store.owner }, { lease_until: tx.nowMs + LEASE_MS });
      });
      await this.recover();
    } catch (error) {
      log.warn("leases could not be renewed; trying again", { error });
    }
  }

  /** Sessions leased by a process that is gone, or by nobody since a shutdown left their queues. */
  async #abandoned(): Promise<readonly SessionRow[]> {
    const { store, clock } = this.#parts;
    const leased = await store.read
      .selectFrom("sessions")
      .selectAll()
      .where("lease_owner", "!=", store.owner)
      .orderBy("lease_until")
      .limit(BATCH)
      .execute();
    const isOver = (session: SessionRow) =>
      session.lease_until < clock.now() || store.ownerIsDead(session.lease_owner ?? "");
    return leased.filter(isOver);
  }

  /** Undefined when another process was faster; else with the run that is to be taken up again, if there is one. */
  async #takeOver(tx: Tx, session: SessionRow): Promise<{ readonly waiting?: RunRow } | undefined> {
    const { store } = this.#parts;
    // Our clock may be ahead of the store's, by which leases run.
    if (session.lease_until >= tx.nowMs && !store.ownerIsDead(session.lease_owner ?? "")) return undefined;
    const old = { id: session.id, lease_owner: session.lease_owner, lease_until: session.lease_until };
    const mine = { lease_owner: store.owner, lease_until: tx.nowMs + LEASE_MS };
    if ((await tx.update("sessions", old, mine)) === 0) return undefined;
    const open = await tx.db
      .selectFrom("runs")
      .selectAll()
      .where("session_id", "=", session.id)
      .where("ended_at", "is", null)
      .where("status", "!=", "queued")
      .execute();
    const [waiting] = open;
    if (waiting && open.length === 1 && (await suspended(tx, waiting))) return { waiting };
    for (const run of open) if (!(await startAgain(tx, run, this.#parts))) await this.#close(tx, run);
    return {};
  }

  /** Ends a run whose process is gone, with what it had said and done as far as anybody knows. */
  async #close(tx: Tx, run: RunRow): Promise<void> {
    const { store } = this.#parts;
    await cancelOpenAsks(tx, store, run.id);
    const where = { sessionId: run.session_id, runId: run.id };
    const isSaved = await endsWithAnswer(tx, where);
    const step = isSaved ? [] : await unsavedEvents(tx, run.id);
    const messages = salvageStep(step);
    await addMessages(tx, where, messages);
    const steers = await unheardSteers(tx, { id: run.id, startedAtMs: 0 }, new Set());
    const outcome =
      run.stop_requested === 1
        ? cancelledOutcome(run.id, steers)
        : interruptedOutcome(run.id, "The server process that ran this ended before the run did.", steers);
    await concludeRun(tx, { run, parts: this.#parts }, outcome);
    await store.journal.append(tx, run.session_id, [...cutCalls(run.id, step), outcome.event]);
  }
}
