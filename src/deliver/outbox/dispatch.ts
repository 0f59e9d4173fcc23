import { waitAtMost } from "../../base/deadline.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { offTracer, type Tracer } from "../../base/observe/trace.ts";
import {
  AHEAD_MS,
  type BusyTargets,
  type LostAttempt,
  type PendingMessage,
} from "../../store/outbox/outbox.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { Attempt, type AttemptEnd } from "./attempt.ts";
import { DEFAULT_RETRY_DELAYS_MS, type RetryRules } from "./backoff.ts";
import { recordEnd, type Recorded, type Settled } from "./record.ts";
import { Slots } from "./slots.ts";
import { canRepeatRow, sendRow } from "./send-row.ts";
import { parseTarget, type Target, type Targets } from "../target.ts";
import { attemptsOf, rulesFor } from "./decision.ts";

export interface DispatcherOptions {
  readonly store: Store;
  readonly targets: Targets;
  readonly clock: Clock;
  readonly log: Log;
  /** Default: nothing is traced. */
  readonly tracer?: Tracer;
  /** Most attempts at once; default 256: every platform has room for its own, though all the others hang. */
  readonly concurrency?: number;
  /** Of these, to one address of those that keep no order; default 4. */
  readonly perAddress?: number;
  /** Longest time between two looks at the outbox; default 5 s. What this process owes is seen at once. */
  readonly pollMs?: number;
  /** How soon others take over what a dead process was sending; default 30 s. */
  readonly leaseMs?: number;
  /** Longest time an attempt may take; default 60 s. */
  readonly sendTimeoutMs?: number;
  /** Waits before each further attempt where the target has none of its own, milliseconds; default 60, 300, 1800 s. */
  readonly retryDelaysMs?: readonly number[];
  /** Default: Math.random. */
  readonly random?: () => number;
  readonly settled?: Settled;
}

interface Claimed {
  readonly rows: readonly OutboxRow[];
  /** Ids of those whose sender was lost in their last attempt: nobody sends them any more. */
  readonly abandoned: readonly string[];
  /** When to look again, if nothing wakes us before. */
  readonly waitMs: number;
}

/** Until the next look when others were faster. */
const CONTENDED_MS = 50;
const FIRST_FAILURE_MS = 1_000;
const MAX_FAILURE_MS = 30_000;
/** What the last writes get when the service stops. */
const LAST_WRITES_MS = 4_000;
const CLOSE_TARGETS_MS = 1_000;
const LOST = "The process that sent it was lost during the attempt: the message may have arrived.";
const UNSENT = "The process that was to send it was lost before it did.";

/**
 * Sends what the outbox owes: claims what is due, hands each message to its target, and records how that went. Any
 * number of processes do so on one store. A message is sent at least once, always under the same id: a process may die
 * between sending and saying so. Messages to one chat go one after the other, in their order; see the outbox.
 */
export class Dispatcher {
  readonly #options: Required<Omit<DispatcherOptions, "settled">> & Pick<DispatcherOptions, "settled">;
  readonly #slots: Slots;
  readonly #attempts = new Map<string, { readonly attempt: Attempt; readonly done: Promise<void> }>();
  #stopListening = () => {};
  #cancelPoll = () => {};
  #cancelRenewal: (() => void) | undefined;
  #round: Promise<void> | undefined;
  #isWanted = false;
  #failures = 0;
  /** The store's time at the last look. */
  #seenMs: number | undefined;
  #advancedMs = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: DispatcherOptions) {
    this.#options = {
      tracer: offTracer,
      concurrency: 256,
      perAddress: 4,
      pollMs: 5_000,
      leaseMs: 30_000,
      sendTimeoutMs: 60_000,
      retryDelaysMs: DEFAULT_RETRY_DELAYS_MS,
      random: Math.random,
      ...options,
    };
    const { concurrency, perAddress } = this.#options;
    this.#slots = new Slots(options.targets, { total: concurrency, perAddress });
  }

  /** Takes up what dead processes left, and from then on whatever becomes due. Never rejects. */
  async start(): Promise<void> {
    const { store, log } = this.#options;
    this.#stopListening = store.outbox.onEnqueued(() => this.wake());
    try {
      const count = await store.write((tx) => store.outbox.reclaim(tx));
      if (count > 0) log.info("took over messages whose sender is gone", { count });
    } catch (error) {
      log.warn("messages of dead senders could not be taken over; their leases run out", { error });
    }
    this.wake();
  }

  /** Attempts under way. */
  get inFlight(): number {
    return this.#attempts.size;
  }

  /** Looks at the outbox now. */
  wake(): void {
    if (this.#closing) return;
    this.#isWanted = true;
    this.#round ??= this.#run();
  }

  /**
   * Claims nothing more, gives what is under way `graceMs` (default 3 s) to end, cuts the rest, which stays owed, and
   * closes the targets. Resolves within 5 s more, whatever target and store do.
   */
  close({ graceMs = 3_000 }: { readonly graceMs?: number } = {}): Promise<void> {
    return (this.#closing ??= this.#close(graceMs));
  }

  async #close(graceMs: number): Promise<void> {
    this.#stopListening();
    this.#cancelPoll();
    const { clock } = this.#options;
    if (graceMs > 0) await waitAtMost(clock, graceMs, this.#settled());
    for (const { attempt } of this.#attempts.values()) attempt.cut("stopped");
    await waitAtMost(clock, LAST_WRITES_MS, this.#settled());
    await waitAtMost(clock, CLOSE_TARGETS_MS, this.#closeTargets());
    this.#isClosed = true;
    this.#cancelRenewal?.();
  }

  async #settled(): Promise<void> {
    await this.#round;
    await Promise.all([...this.#attempts.values()].map(({ done }) => done));
  }

  async #closeTargets(): Promise<void> {
    const { targets, log } = this.#options;
    const close = async (target: Target) => {
      try {
        await target.close?.();
      } catch (error) {
        log.warn("a delivery target could not be closed", { target: target.name, error });
      }
    };
    await Promise.all([...targets.values()].map(close));
  }

  /** One at a time; who wakes it meanwhile gets another look. */
  async #run(): Promise<void> {
    this.#cancelPoll();
    let waitMs = 0;
    while (this.#isWanted && !this.#closing) {
      this.#isWanted = false;
      waitMs = await this.#fill();
    }
    this.#round = undefined;
    if (!this.#closing) this.#cancelPoll = this.#options.clock.after(waitMs, () => this.wake());
  }

  /** Starts as many attempts as are due and have room. Resolves to how long nothing more is to be done. */
  async #fill(): Promise<number> {
    const { store, pollMs, log } = this.#options;
    try {
      for (;;) {
        // The end of an attempt wakes us.
        if (this.#slots.isFull) return pollMs;
        const { busy } = this.#slots;
        const { rows, abandoned, waitMs } = await store.write((tx) => this.#claim(tx, busy));
        this.#failures = 0;
        for (const row of rows) this.#start(row);
        if (abandoned.length > 0)
          log.warn("messages may have arrived, and are not sent again", { ids: abandoned });
        if (rows.length + abandoned.length === 0 || this.#closing) return Math.min(waitMs, pollMs);
      }
    } catch (error) {
      const waitMs = Math.min(FIRST_FAILURE_MS * 2 ** this.#failures, MAX_FAILURE_MS);
      this.#failures += 1;
      log.warn("the outbox could not be read; trying again", { error });
      return waitMs;
    }
  }

  async #claim(tx: Tx, busy: BusyTargets): Promise<Claimed> {
    const { store, leaseMs, pollMs } = this.#options;
    const { nowMs } = tx;
    await this.#correctAhead(tx);
    if (Math.abs(nowMs - this.#advancedMs) >= pollMs) {
      await store.outbox.advance(tx);
      this.#advancedMs = nowMs;
    }
    const waiting = await store.outbox.listPending(tx, { except: busy });
    // One of ours that is under way looks due when its lease could not be renewed: it is not sent twice at once.
    const due = waiting.filter(({ id, available_at: at }) => at <= nowMs && !this.#attempts.has(id));
    const next = waiting.find(({ available_at: at }) => at > nowMs);
    const waitMs = next ? next.available_at - nowMs : pollMs;
    if (due.length === 0) return { rows: [], abandoned: [], waitMs };
    const left = due.filter(({ status }) => status === "leased");
    const abandoned = left.length > 0 ? await this.#settleLost(tx, left) : [];
    const ids = this.#slots.choose(due.filter(({ id }) => !abandoned.includes(id))).map(({ id }) => id);
    const rows = await store.outbox.claim(tx, { ids, limit: ids.length, leaseMs });
    return { rows, abandoned, waitMs: Math.min(waitMs, CONTENDED_MS) };
  }

  /** At the start, and when the clock was put back. */
  async #correctAhead(tx: Tx): Promise<void> {
    const { store, log } = this.#options;
    const { nowMs } = tx;
    if (this.#seenMs === undefined || nowMs < this.#seenMs - AHEAD_MS) {
      const count = await store.outbox.correctAhead(tx);
      if (count > 0)
        log.warn("the clock was ahead: messages were due too late, and are due in a minute", { count });
    }
    tx.afterCommit(() => (this.#seenMs = nowMs));
  }

  /** Settles what is due since its lease ran out. Gives the ids of those that are not sent again. */
  async #settleLost(tx: Tx, left: readonly PendingMessage[]): Promise<readonly string[]> {
    const { store, settled } = this.#options;
    const abandoned: string[] = [];
    for (const waiting of left) {
      const status = await this.#lostAs(tx, waiting);
      const error = status === "unsent" ? UNSENT : LOST;
      const row = await store.outbox.settleLost(tx, waiting.id, { status, error });
      if (status !== "unknown" || !row) continue;
      await settled?.(tx, row, { status, error });
      abandoned.push(waiting.id);
    }
    return abandoned;
  }

  async #lostAs(tx: Tx, waiting: PendingMessage): Promise<LostAttempt["status"]> {
    const { target, rules } = this.#ruled(waiting);
    const row = await tx.find("outbox", { id: waiting.id });
    const isSafe = target !== undefined && row !== undefined && canRepeatRow(target, row);
    // Where a platform is not known, a request that was not noted may be one that is safe to repeat.
    if (!isSafe && waiting.started_at !== null) return "unknown";
    if (!isSafe && target !== undefined) return "unsent";
    return waiting.attempts >= attemptsOf(waiting, rules) ? "unknown" : "again";
  }

  /** Who sends it, and by what rules it is tried again. */
  #ruled({ target: address }: { readonly target: string }): {
    readonly target: Target | undefined;
    readonly rules: RetryRules;
  } {
    const { targets, retryDelaysMs, random } = this.#options;
    const target = targets.get(parseTarget(address).platform);
    return { target, rules: rulesFor(target, { delaysMs: retryDelaysMs, random }) };
  }

  #start(row: OutboxRow): void {
    const leave = this.#slots.take(row);
    const attempt = new Attempt();
    const work = async () => {
      const end = await this.#send(row, attempt);
      const recorded = this.#record(row, end);
      // The next look is queued behind the record: one commit for both.
      leave();
      this.wake();
      await recorded;
      this.#attempts.delete(row.id);
      // It may be due again, and was passed over while it was under way.
      if (end.status !== "delivered") this.wake();
    };
    this.#attempts.set(row.id, { attempt, done: work() });
    this.#cancelRenewal ??= this.#scheduleRenewal();
  }

  #send(row: OutboxRow, attempt: Attempt): Promise<AttemptEnd> {
    const { targets, store, clock, tracer, sendTimeoutMs } = this.#options;
    return sendRow(row, attempt, { targets, store, clock, tracer, timeoutMs: sendTimeoutMs });
  }

  /** When the outcome cannot be written the lease runs out, and the message is sent again under the same id. */
  async #record(row: OutboxRow, end: AttemptEnd): Promise<void> {
    const { store, log, settled } = this.#options;
    const facts = { id: row.id, target: row.target, ref: row.ref, attempt: row.attempts };
    try {
      this.#tell(await recordEnd(store, row, end, { ...this.#ruled(row), settled }), facts);
    } catch (error) {
      log.warn("the outcome of a delivery could not be recorded", { ...facts, error });
    }
  }

  #tell(end: Recorded, facts: Readonly<Record<string, unknown>>): void {
    const { log } = this.#options;
    if (end.status === "lost") log.warn("a message's lease was lost during the attempt", facts);
    if (!("error" in end)) return;
    const told = { ...facts, reason: end.error };
    if (end.status === "again") log.info("a message could not be delivered yet", told);
    else if (end.status === "dead") log.warn("a message could not be delivered and is given up", told);
    else log.warn("a message may have arrived, and is not sent again", told);
  }

  #scheduleRenewal(): () => void {
    const { clock, leaseMs } = this.#options;
    return clock.after(leaseMs / 3, () => {
      void this.#renew().finally(() => {
        this.#cancelRenewal =
          this.#attempts.size > 0 && !this.#isClosed ? this.#scheduleRenewal() : undefined;
      });
    });
  }

  async #renew(): Promise<void> {
    const { store, leaseMs, log } = this.#options;
    const ids = [...this.#attempts.keys()];
    try {
      const lost = await store.write(async (tx) => {
        const gone: string[] = [];
        for (const id of ids) if (!(await store.outbox.renew(tx, id, leaseMs))) gone.push(id);
        return gone;
      });
      for (const id of lost) this.#attempts.get(id)?.attempt.cut("lost");
    } catch (error) {
      log.warn("leases of messages could not be renewed; trying again", { error });
    }
  }
}
