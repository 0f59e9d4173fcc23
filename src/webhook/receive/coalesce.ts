import type { Prompt } from "../../agent/run/prompt.ts";
import type { RunScheduler } from "../../agent/run/scheduler.ts";
import { sha256 } from "../../base/digest.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { isDuplicateKey } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { PendingEventRow, RunRow } from "../../store/schema/tables.ts";

/** An event that waits for a newer one to take its place. */
export interface NewEvent {
  readonly route: string;
  /** Events of a route with the same one are taken together. */
  readonly key: string;
  /** Id of its record. */
  readonly delivery: string;
  /** What the agent is asked when nothing newer comes. */
  readonly prompt: Prompt;
  /** How long it has to be quiet. */
  readonly windowMs: number;
  /** The longest that the first of them waits. */
  readonly maxWaitMs: number;
  /** Writes the record and takes its names, in the same transaction. */
  readonly record: (tx: Tx) => Promise<void>;
}

export interface CoalescerOptions {
  readonly store: Store;
  readonly runs: Pick<RunScheduler, "submit" | "draining">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Thrown inside a transaction: another process changed the same event. */
class Contended extends Error {
  override readonly name = "Contended";
}

const MAX_ATTEMPTS = 5;
const BATCH = 50;
/** Longest time between two looks: what a dead process left is seen then, too. */
const POLL_MS = 60_000;
/** How long an event waits that could not be handed over. */
const RETRY_MS = 5_000;

/**
 * Keeps the newest event of each key until it is quiet. What waits is in the store, so that it outlives this process:
 * what is due at the next start is handed over then. Any number of processes do so on one store.
 */
export class Coalescer {
  readonly #options: CoalescerOptions;
  #cancel = () => {};
  #round: Promise<void> | undefined;
  #isWanted = false;
  #isClosed = false;

  constructor(options: CoalescerOptions) {
    this.#options = options;
  }

  /** Hands over what is due, and from then on whatever becomes due. */
  start(): void {
    this.#wake();
  }

  /** Hands nothing over any more; what waits is left to the next start. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#round;
  }

  /** Once this resolves the event is safe. Rejects as `record` does, and then nothing of it is there. */
  async put(event: NewEvent): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#options.store.write((tx) => this.#put(tx, event));
        break;
      } catch (error) {
        const isContended = error instanceof Contended || isDuplicateKey(error);
        if (!isContended || attempt >= MAX_ATTEMPTS) throw error;
      }
    }
    this.#wake();
  }

  async #put(tx: Tx, event: NewEvent): Promise<void> {
    await event.record(tx);
    const { delivery, windowMs, maxWaitMs } = event;
    const id = sha256(`${event.route}:${event.key}`);
    const prompt = JSON.stringify(event.prompt);
    const old = await tx.find("pending_events", { id });
    if (!old) {
      const times = { first_at: tx.nowMs, due_at: tx.nowMs + Math.min(windowMs, maxWaitMs) };
      return tx.insert("pending_events", [{ id, delivery, prompt, superseded: 0, ...times }]);
    }
    const changed = await tx.update("pending_events", unchanged(old), {
      delivery,
      prompt,
      superseded: old.superseded + 1,
      due_at: Math.min(tx.nowMs + windowMs, old.first_at + maxWaitMs),
    });
    if (changed !== 1) throw new Contended();
    const reason = `a newer event of the same key took its place: ${delivery}`;
    await tx.update("deliveries", { id: old.delivery }, { status: "ignored", reason, ended_at: tx.nowMs });
  }

  /** Looks for what is due; one look at a time, and another when it is asked for meanwhile. */
  #wake(): void {
    if (this.#isClosed) return;
    this.#isWanted = true;
    this.#round ??= this.#run();
  }

  async #run(): Promise<void> {
    this.#cancel();
    let waitMs = POLL_MS;
    while (this.#isWanted && !this.#isClosed) {
      this.#isWanted = false;
      waitMs = await this.#look();
    }
    this.#round = undefined;
    if (!this.#isClosed) this.#cancel = this.#options.clock.after(waitMs, () => this.#wake());
  }

  /** Resolves to how long nothing is to be done. Never rejects. */
  async #look(): Promise<number> {
    const { store, log, runs } = this.#options;
    // Then nothing can be handed over, and what is due would be looked at again and again.
    if (runs.draining) return POLL_MS;
    try {
      const { due, nextMs } = await store.write(dueEvents);
      for (const row of due) await this.#handOver(row);
      return due.length > 0 ? 0 : Math.min(nextMs, POLL_MS);
    } catch (error) {
      log.warn("events that wait to be taken together could not be read; trying again", { error });
      return RETRY_MS;
    }
  }

  async #handOver(row: PendingEventRow): Promise<void> {
    const { runs, store, log } = this.#options;
    // A newer one that came meanwhile, or another process that was faster, has the event: nothing is lost.
    const alsoRecord = async (tx: Tx, { id, status }: RunRow): Promise<void> => {
      if (!(await remove(tx, row))) throw new Contended();
      const started = status === "running" ? { status } : {};
      await tx.update("deliveries", { id: row.delivery }, { run_id: id, ...started });
    };
    try {
      await runs.submit({ ...withNote(JSON.parse(row.prompt) as Prompt, row.superseded), alsoRecord });
    } catch (error) {
      if (error instanceof Contended || runs.draining) return;
      log.warn("an event that waited could not be handed over; trying again", {
        delivery: row.delivery,
        error,
      });
      await store.write((tx) => tx.update("pending_events", unchanged(row), { due_at: tx.nowMs + RETRY_MS }));
    }
  }
}

const unchanged = ({ id, delivery, due_at }: PendingEventRow) => ({ id, delivery, due_at });

async function dueEvents(
  tx: Tx,
): Promise<{ readonly due: readonly PendingEventRow[]; readonly nextMs: number }> {
  const soonest = tx.db.selectFrom("pending_events").orderBy("due_at").orderBy("id");
  const due = await soonest.selectAll().where("due_at", "<=", tx.nowMs).limit(BATCH).execute();
  const next = await soonest.select("due_at").where("due_at", ">", tx.nowMs).limit(1).executeTakeFirst();
  return { due, nextMs: next ? next.due_at - tx.nowMs : Number.POSITIVE_INFINITY };
}

async function remove(tx: Tx, { id, delivery }: PendingEventRow): Promise<boolean> {
  const gone = tx.db.deleteFrom("pending_events").where("id", "=", id).where("delivery", "=", delivery);
  return Number((await gone.executeTakeFirst()).numDeletedRows) === 1;
}

/** The agent is told that this is not the only event of its kind. */
function withNote(prompt: Prompt, superseded: number): Prompt {
  if (superseded === 0) return prompt;
  const note =
    superseded === 1 ? "1 earlier event was superseded." : `${superseded} earlier events were superseded.`;
  const [message, ...rest] = prompt.input.prompt;
  if (message?.role !== "user") return prompt;
  const text = `${message.text}\n\n${note}`;
  return { ...prompt, input: { ...prompt.input, prompt: [{ ...message, text }, ...rest] } };
}
