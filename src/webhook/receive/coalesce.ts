import type { Prompt } from "../../agent/run/run.ts";
import type { Agent } from "../../agent/agent.ts";
import { sha256 } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type { Log } from "../../base/observe.ts";
import { changeDelivery } from "../deliveries/deliveries.ts";
import { deletePendingEvent, duePendingEvents } from "../queries.ts";
import { isDuplicateKey } from "../../store/tx/group.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { PendingEventRow, RunRow } from "../../store/schema/tables.ts";

/** An event that a newer one may supersede while it waits. */
export interface NewEvent {
  readonly route: string;
  /** Events of a route with the same key are coalesced. */
  readonly key: string;
  /** Id of the delivery. */
  readonly delivery: string;
  /** The prompt of the run when no newer event comes. */
  readonly prompt: Prompt;
  /** How long no newer event may come before the run starts. */
  readonly windowMs: number;
  /** The longest that the first event of the key waits. */
  readonly maxWaitMs: number;
  /** Records the delivery and its dedupe key in the same transaction. */
  readonly record: (tx: Tx) => Promise<void>;
}

export interface CoalescerOptions {
  readonly store: Store;
  readonly runs: Pick<Agent["runs"], "submit" | "draining">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Thrown inside a transaction: another process changed the same event. */
class Contended extends Error {
  override readonly name = "Contended";
}

const MAX_ATTEMPTS = 5;
const BATCH = 50;
/** Longest time between two polls: a poll also finds the events of a process that died. */
const POLL_MS = 60_000;
/** How long an event waits after its run could not be submitted. */
const RETRY_MS = 5_000;

/**
 * Keeps the newest event of each key until no newer one comes for a while, then submits its run. Events wait in the store:
 * they survive a restart, and any number of processes may share it.
 */
export class Coalescer {
  readonly #options: CoalescerOptions;
  #cancel = () => {};
  #polls: Promise<void> | undefined;
  #isPollWanted = false;
  #isClosed = false;

  constructor(options: CoalescerOptions) {
    this.#options = options;
  }

  /** Submits what is due, now and from then on. */
  start(): void {
    this.#wake();
  }

  /** Stops submitting. Waiting events stay in the store for the next start. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#polls;
  }

  /** Stores an event durably. Rejects as `record` does, and then stores nothing. */
  async put(event: NewEvent): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#options.store.write((tx) => put(tx, event));
        break;
      } catch (error) {
        const isContended = error instanceof Contended || isDuplicateKey(error);
        if (!isContended || attempt >= MAX_ATTEMPTS) throw error;
      }
    }
    this.#wake();
  }

  /** Polls once more. Only one poll runs at a time. */
  #wake(): void {
    if (this.#isClosed) return;
    this.#isPollWanted = true;
    this.#polls ??= this.#pollAll();
  }

  async #pollAll(): Promise<void> {
    this.#cancel();
    let waitMs = POLL_MS;
    while (this.#isPollWanted && !this.#isClosed) {
      this.#isPollWanted = false;
      waitMs = await this.#poll();
    }
    this.#polls = undefined;
    if (!this.#isClosed) this.#cancel = this.#options.clock.after(waitMs, () => this.#wake());
  }

  /** Submits what is due. Resolves to the time until the next poll. Never rejects. */
  async #poll(): Promise<number> {
    const { store, log, runs } = this.#options;
    // While draining nothing can be submitted, and due events would be polled again and again.
    if (runs.draining) return POLL_MS;
    try {
      const { due, nextMs } = await store.write((tx) => duePendingEvents(tx, BATCH));
      for (const row of due) await this.#submit(row);
      return due.length > 0 ? 0 : Math.min(nextMs, POLL_MS);
    } catch (error) {
      log.warn("cannot read the coalesced events; trying again", { error });
      return RETRY_MS;
    }
  }

  async #submit(row: PendingEventRow): Promise<void> {
    const { runs, store, log } = this.#options;
    const alsoRecord = async (tx: Tx, { id, status }: RunRow): Promise<void> => {
      // A newer event superseded this one, or another process submitted it: nothing is lost.
      if (!(await deletePendingEvent(tx, row))) throw new Contended();
      const started = status === "running" ? { status } : {};
      await changeDelivery(tx, { id: row.delivery }, { run_id: id, ...started });
    };
    try {
      await runs.submit({ ...withNote(JSON.parse(row.prompt) as Prompt, row.superseded), alsoRecord });
    } catch (error) {
      if (error instanceof Contended || runs.draining) return;
      log.warn("cannot start the run of a coalesced event; trying again", { delivery: row.delivery, error });
      await store.write((tx) => tx.update("pending_events", unchanged(row), { due_at: tx.nowMs + RETRY_MS }));
    }
  }
}

async function put(tx: Tx, event: NewEvent): Promise<void> {
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
  const reason = `superseded by a newer event of the same key: ${delivery}`;
  await changeDelivery(tx, { id: old.delivery }, { status: "ignored", reason, ended_at: tx.nowMs });
}

const unchanged = ({ id, delivery, due_at }: PendingEventRow) => ({ id, delivery, due_at });

/** States how many events this one supersedes. */
function withNote(prompt: Prompt, superseded: number): Prompt {
  if (superseded === 0) return prompt;
  const note =
    superseded === 1 ? "1 earlier event was superseded." : `${superseded} earlier events were superseded.`;
  const [message, ...rest] = prompt.input.prompt;
  if (message?.role !== "user") return prompt;
  const text = `${message.text}\n\n${note}`;
  return { ...prompt, input: { ...prompt.input, prompt: [{ ...message, text }, ...rest] } };
}
