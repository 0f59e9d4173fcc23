import { waitAtMost, type Clock } from "../../base/time.ts";
import { type Log, offTracer, type Tracer } from "../../base/observe.ts";
import {
  AHEAD_MS,
  type BusyTargets,
  type LostAttempt,
  type PendingMessage,
} from "../../store/outbox/outbox.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import {
  Attempt,
  type AttemptEnd,
  canRepeatRow,
  sendRow,
  DEFAULT_RETRY_DELAYS_MS,
  type RetryRules,
  recordEnd,
  type Recorded,
  type Settled,
  startClaimed,
  attemptsOf,
  rulesFor,
} from "./attempt.ts";
import type { OutboundFiles } from "./files.ts";
import { parseTarget, type Target, type Targets } from "../target.ts";

export interface DispatcherOptions {
  readonly store: Store;
  readonly targets: Targets;
  readonly clock: Clock;
  readonly log: Log;
  /** Default: nothing is traced. */
  readonly tracer?: Tracer;
  /** Most concurrent attempts; default 256, so that every platform can send even if all others hang. */
  readonly concurrency?: number;
  /** Most concurrent attempts to one address of a target without order; default 4. */
  readonly perAddress?: number;
  /** Longest time between two polls of the outbox; default 5 s. Messages of this process are seen at once. */
  readonly pollMs?: number;
  /** How soon other processes reclaim the messages of a dead process; default 30 s. */
  readonly leaseMs?: number;
  /** Timeout of an attempt; default 60 s. */
  readonly sendTimeoutMs?: number;
  /** Delays before each retry where the target has none of its own, milliseconds; default 60, 300, 1800 s. */
  readonly retryDelaysMs?: readonly number[];
  /** Default: Math.random. */
  readonly random?: () => number;
  readonly settled?: Settled;
  /** Keeps the files of messages. Absent: their lines stay text. */
  readonly files?: OutboundFiles;
}

interface Claimed {
  readonly rows: readonly OutboxRow[];
  /** Ids of messages whose sender was lost in their last attempt. They are not sent again. */
  readonly abandoned: readonly string[];
  /** When to poll again unless something wakes the dispatcher earlier. */
  readonly waitMs: number;
}

/** Wait when other processes claimed first. */
const CONTENDED_MS = 50;
const FIRST_FAILURE_MS = 1_000;
const MAX_FAILURE_MS = 30_000;
/** Time for the last writes when the service stops. */
const LAST_WRITES_MS = 4_000;
const CLOSE_TARGETS_MS = 1_000;
/** Time between two searches for files of messages that are over. */
const SWEEP_MS = 6 * 3_600_000;
const LOST = "The process that sent the message ended during the attempt. The message may have arrived.";
const UNSENT = "The process that claimed the message ended before it sent it.";

/**
 * Sends the messages of the outbox: claims what is due, hands each message to its target, and records the outcome. Any
 * number of processes can do so on one store. A message is sent at least once, always with the same id: a process may
 * die between sending it and recording the outcome. Messages to one chat are sent one after the other, in order; see
 * the outbox.
 */
export class Dispatcher {
  readonly #options: Required<Omit<DispatcherOptions, "settled" | "files">> &
    Pick<DispatcherOptions, "settled" | "files">;
  readonly #slots: Slots;
  readonly #attempts = new Map<string, { readonly attempt: Attempt; readonly done: Promise<void> }>();
  #stopListening = () => {};
  #cancelPoll = () => {};
  #cancelSweep = () => {};
  #cancelRenewal: (() => void) | undefined;
  #round: Promise<void> | undefined;
  #isWanted = false;
  #failures = 0;
  /** The store's time at the last poll. */
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

  /** Reclaims the messages of dead processes and then sends whatever becomes due. Never rejects. */
  async start(): Promise<void> {
    const { store, log } = this.#options;
    this.#stopListening = store.outbox.onEnqueued(() => this.wake());
    try {
      const count = await store.write((tx) => store.outbox.reclaim(tx));
      if (count > 0) log.info("reclaimed messages of dead processes", { count });
    } catch (error) {
      log.warn("cannot reclaim messages of dead processes; waiting until their leases expire", { error });
    }
    void this.#sweepFiles();
    this.wake();
  }

  /** Number of running attempts. */
  get inFlight(): number {
    return this.#attempts.size;
  }

  /** Polls the outbox now. */
  wake(): void {
    if (this.#closing) return;
    this.#isWanted = true;
    this.#round ??= this.#run();
  }

  /**
   * Stops claiming, waits up to `graceMs` (default 3 s) for running attempts, cuts the rest, which stay pending, and
   * closes the targets. Resolves within 5 more seconds, whatever targets and store do.
   */
  close({ graceMs = 3_000 }: { readonly graceMs?: number } = {}): Promise<void> {
    return (this.#closing ??= this.#close(graceMs));
  }

  async #close(graceMs: number): Promise<void> {
    this.#stopListening();
    this.#cancelPoll();
    this.#cancelSweep();
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
        log.warn("cannot close a delivery target", { target: target.name, error });
      }
    };
    await Promise.all([...targets.values()].map(close));
  }

  /** Runs one at a time. A wake-up during a round causes another round. */
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

  /** Starts all due attempts that fit the limits. Resolves to the time until the next poll, milliseconds. */
  async #fill(): Promise<number> {
    const { store, pollMs, log } = this.#options;
    try {
      for (;;) {
        // The end of an attempt wakes the dispatcher.
        if (this.#slots.isFull) return pollMs;
        const { busy } = this.#slots;
        const { rows, abandoned, waitMs } = await store.write((tx) => this.#claim(tx, busy));
        this.#failures = 0;
        for (const row of rows) await this.#begin(row);
        if (abandoned.length > 0)
          log.warn("messages may have arrived and are not sent again", { ids: abandoned });
        if (rows.length + abandoned.length === 0 || this.#closing) return Math.min(waitMs, pollMs);
      }
    } catch (error) {
      const waitMs = Math.min(FIRST_FAILURE_MS * 2 ** this.#failures, MAX_FAILURE_MS);
      this.#failures += 1;
      log.warn("cannot read the outbox; retrying", { error });
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
    // A message that this process is sending looks due when its lease could not be renewed. It must not be sent twice at once.
    const due = waiting.filter(({ id, available_at: at }) => at <= nowMs && !this.#attempts.has(id));
    const next = waiting.find(({ available_at: at }) => at > nowMs);
    const waitMs = next ? next.available_at - nowMs : pollMs;
    if (due.length === 0) return { rows: [], abandoned: [], waitMs };
    const left = due.filter(({ status }) => status === "leased");
    const abandoned = left.length > 0 ? await this.#settleLost(tx, left) : [];
    const ids = this.#slots.choose(due.filter(({ id }) => !abandoned.includes(id))).map(({ id }) => id);
    const claimed = await store.outbox.claim(tx, { ids, limit: ids.length, leaseMs });
    const started = claimed.map((row) => startClaimed(tx, store, { row, target: this.#rulesOf(row).target }));
    const rows = await Promise.all(started);
    return { rows, abandoned, waitMs: Math.min(waitMs, CONTENDED_MS) };
  }

  /** Corrects due times at the start and after the clock was set back. */
  async #correctAhead(tx: Tx): Promise<void> {
    const { store, log } = this.#options;
    const { nowMs } = tx;
    if (this.#seenMs === undefined || nowMs < this.#seenMs - AHEAD_MS) {
      const count = await store.outbox.correctAhead(tx);
      if (count > 0)
        log.warn("the clock was ahead: messages scheduled too late are due in a minute", { count });
    }
    tx.afterCommit(() => (this.#seenMs = nowMs));
  }

  /** Settles messages whose lease expired. Returns the ids of those that are not sent again. */
  async #settleLost(tx: Tx, left: readonly PendingMessage[]): Promise<readonly string[]> {
    const { store, settled } = this.#options;
    const abandoned: string[] = [];
    for (const waiting of left) {
      const status = await this.#lostStatus(tx, waiting);
      const error = status === "unsent" ? UNSENT : LOST;
      const row = await store.outbox.settleLost(tx, waiting.id, { status, error });
      if (status !== "unknown" || !row) continue;
      await settled?.(tx, row, { status, error });
      abandoned.push(waiting.id);
    }
    return abandoned;
  }

  async #lostStatus(tx: Tx, waiting: PendingMessage): Promise<LostAttempt["status"]> {
    const { target, rules } = this.#rulesOf(waiting);
    const row = await tx.find("outbox", { id: waiting.id });
    const isSafe = target !== undefined && row !== undefined && canRepeatRow(target, row);
    // Without the target, a request without a recorded start may be one that is safe to repeat.
    if (!isSafe && waiting.started_at !== null) return "unknown";
    if (!isSafe && target !== undefined) return "unsent";
    return waiting.attempts >= attemptsOf(waiting, rules) ? "unknown" : "again";
  }

  /** Returns the target of a message and its retry rules. */
  #rulesOf({ target: address }: { readonly target: string }): {
    readonly target: Target | undefined;
    readonly rules: RetryRules;
  } {
    const { targets, retryDelaysMs, random } = this.#options;
    const target = targets.get(parseTarget(address).platform);
    return { target, rules: rulesFor(target, { delaysMs: retryDelaysMs, random }) };
  }

  #start(row: OutboxRow): void {
    const release = this.#slots.take(row);
    const attempt = new Attempt();
    const work = async () => {
      const end = await this.#send(row, attempt);
      // Not while the platform has no free slot: messages of other keys may have waited for longer.
      const sendsNext = row.ordering_key !== null && !this.#closing && this.#slots.hasFreeSlot(row.target);
      const recorded = this.#record(row, end, sendsNext);
      if (!sendsNext) {
        // The next claim is queued behind the record, so that both share one commit.
        release();
        this.wake();
      }
      const next = await recorded;
      this.#attempts.delete(row.id);
      if (sendsNext) release();
      if (next) await this.#begin(next);
      // It may be due again: polls skip a message while its attempt runs.
      else if (sendsNext || end.status !== "delivered") this.wake();
    };
    this.#attempts.set(row.id, { attempt, done: work() });
    this.#cancelRenewal ??= this.#scheduleRenewal();
  }

  /** Sends a message that was claimed; when the service stops meanwhile, it is due as before. */
  async #begin(row: OutboxRow): Promise<void> {
    const { store, log } = this.#options;
    if (!this.#closing) return this.#start(row);
    await store
      .write((tx) => store.outbox.release(tx, row.id))
      .catch((error: unknown) => log.warn("cannot release a message", { id: row.id, error }));
  }

  #send(row: OutboxRow, attempt: Attempt): Promise<AttemptEnd> {
    const { targets, store, clock, tracer, sendTimeoutMs, files } = this.#options;
    return sendRow(row, attempt, { targets, store, clock, tracer, files, timeoutMs: sendTimeoutMs });
  }

  /**
   * Resolves to the next message of the ordering key when it was claimed with `sendsNext`. When the outcome cannot be recorded,
   * the lease expires and the message is sent again with the same id.
   */
  async #record(row: OutboxRow, end: AttemptEnd, sendsNext: boolean): Promise<OutboxRow | undefined> {
    const { store, log, settled, leaseMs } = this.#options;
    const fields = { id: row.id, target: row.target, ref: row.ref, attempt: row.attempts };
    try {
      const options = { ...this.#rulesOf(row), settled, nextLeaseMs: sendsNext ? leaseMs : undefined };
      const { recorded, next } = await recordEnd(store, row, end, options);
      this.#logEnd(recorded, fields);
      if (recorded.status === "delivered") await this.#removeFiles(row);
      return next;
    } catch (error) {
      log.warn("cannot record the outcome of an attempt", { ...fields, error });
      return undefined;
    }
  }

  /** The payload as it was claimed may not name its files yet. */
  async #removeFiles({ id, payload }: OutboxRow): Promise<void> {
    const { files, log } = this.#options;
    if (!files || !/"files":|MEDIA:/.test(payload)) return;
    await files
      .remove(id)
      .catch((error: unknown) =>
        log.warn("cannot remove the files of a message that was sent", { id, error }),
      );
  }

  /** Removes the files of messages that were delivered by processes that ended then, or that are dropped or deleted. */
  async #sweepFiles(): Promise<void> {
    const { store, files, log, clock } = this.#options;
    if (!files || this.#closing) return;
    const isDone = async (id: string) => {
      const row = await store.find("outbox", { id });
      return row === undefined || row.status === "delivered" || row.status === "dropped";
    };
    await files
      .sweep(isDone)
      .catch((error: unknown) => log.warn("cannot remove the files of old messages", { error }));
    if (!this.#closing) this.#cancelSweep = clock.after(SWEEP_MS, () => void this.#sweepFiles());
  }

  #logEnd(end: Recorded, fields: Readonly<Record<string, unknown>>): void {
    const { log } = this.#options;
    if (end.status === "lost") log.warn("lost the lease of a message during the attempt", fields);
    if (!("error" in end)) return;
    const details = { ...fields, reason: end.error };
    if (end.status === "again") log.info("cannot deliver a message yet; it will be retried", details);
    else if (end.status === "dead") log.warn("cannot deliver a message; no attempt is left", details);
    else log.warn("a message may have arrived and is not sent again", details);
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
      log.warn("cannot renew the leases of messages; retrying", { error });
    }
  }
}

interface SlotMessage {
  /** Whole address. */
  readonly target: string;
  readonly ordering_key: string | null;
}

interface SlotLimits {
  /** Most concurrent attempts. */
  readonly total: number;
  /** Of these, to one address, of messages without an ordering key. */
  readonly perAddress: number;
}

const PER_PLATFORM = 8;

/**
 * Attempts under way, counted by platform, and by address those without an ordering key; each with its limit: a target
 * that hangs occupies only its own slots.
 */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #targets: Targets;
  readonly #taken = new Counts();

  constructor(targets: Targets, limits: SlotLimits) {
    this.#targets = targets;
    this.#limits = limits;
  }

  get isFull(): boolean {
    return this.#taken.total >= this.#limits.total;
  }

  /** Addresses and platforms that accept no further attempt for now. */
  get busy(): BusyTargets {
    const { addresses, platforms } = this.#taken;
    const full = [...addresses].filter(([, count]) => count >= this.#limits.perAddress);
    const fullPlatforms = [...platforms].filter(([name, count]) => count >= this.#platformLimit(name));
    const waiting = [...this.#targets.values()].filter((target) => target.isReady?.() === false);
    const names = new Set([...fullPlatforms.map(([name]) => name), ...waiting.map(({ name }) => name)]);
    return { targets: full.map(([target]) => target), platforms: [...names] };
  }

  /** Returns the messages that fit the limits, in order. */
  choose<M extends SlotMessage>(messages: readonly M[]): readonly M[] {
    const taken = this.#taken.copy();
    return messages.filter((message) => {
      const { target } = message;
      const { platform } = parseTarget(target);
      const fits =
        taken.total < this.#limits.total &&
        (taken.platforms.get(platform) ?? 0) < this.#platformLimit(platform) &&
        (message.ordering_key !== null || (taken.addresses.get(target) ?? 0) < this.#limits.perAddress);
      if (fits) taken.add(message, 1);
      return fits;
    });
  }

  /** Whether the platform of an address, and all together, have a free slot. */
  hasFreeSlot(target: string): boolean {
    return !this.isFull && !this.busy.platforms.includes(parseTarget(target).platform);
  }

  /** Takes a slot. The returned function releases it. */
  take(message: SlotMessage): () => void {
    this.#taken.add(message, 1);
    return () => this.#taken.add(message, -1);
  }

  #platformLimit(platform: string): number {
    return this.#targets.get(platform)?.concurrency ?? PER_PLATFORM;
  }
}

class Counts {
  total = 0;
  readonly addresses = new Map<string, number>();
  readonly platforms = new Map<string, number>();

  add({ target, ordering_key }: SlotMessage, by: 1 | -1): void {
    this.total += by;
    if (ordering_key === null) step(this.addresses, target, by);
    step(this.platforms, parseTarget(target).platform, by);
  }

  copy(): Counts {
    const copy = new Counts();
    copy.total = this.total;
    for (const [key, count] of this.addresses) copy.addresses.set(key, count);
    for (const [key, count] of this.platforms) copy.platforms.set(key, count);
    return copy;
  }
}

function step(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
