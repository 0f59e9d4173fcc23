/** The outbox of one connection: bounded and ordered. Waiting deltas of one stream are merged. */
import type { GatewayEvent, GatewayEvents } from "../../../generated/gateway/host.gen.ts";
import type { Clock } from "../../base/time.ts";
import type { ReaderBudget, ReaderQueue } from "../../store/journal/reader-budget.ts";

/** The sending side of a transport. */
export interface Wire {
  send(text: string): void;
  /** Bytes that were sent and are still in the transport's buffer. */
  buffered(): number;
}

export interface OutboxOptions {
  readonly wire: Wire;
  readonly clock: Clock;
  readonly maxFrames: number;
  readonly maxBytes: number;
  /** The budget of all readers together; absent: only this outbox's own limits hold. */
  readonly readers?: ReaderBudget;
  /** Called once when the limits are exceeded. Nothing is sent from then on. */
  readonly onOverflow: () => void;
}

/** A waiting frame. A delta is encoded only when it is sent, so that the next one can be merged into it. */
interface Waiting {
  readonly text?: string;
  delta?: Delta;
  /** In characters, as an estimate of bytes. */
  size: number;
}

/** Events of a session that wait until the calls that hold it are answered. */
interface Held {
  calls: number;
  readonly waiting: Waiting[];
}

/** Deltas that follow within this time are merged. */
const TICK_MS = 33;
/** Above this many bytes in the transport's buffer, frames wait here, where they can be merged and counted. */
const WIRE_BYTES = 262_144;
/** How often to poll a full transport, besides its drain events. */
const POLL_MS = 20;
const ENVELOPE = 160;

export class Outbox {
  readonly #options: OutboxOptions;
  #waiting: Waiting[] = [];
  #first = 0;
  readonly #held = new Map<string, Held>();
  #heldFrames = 0;
  /** Of all waiting frames, held or not. */
  #size = 0;
  /** Number of dropped deltas, by stream. The next delta of the stream reports it. */
  readonly #dropped = new Map<string, { count: number }>();
  #lastDeltaMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #isClosed = false;
  readonly #account: ReaderQueue | undefined;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.#account = options.readers?.open(() => options.onOverflow());
  }

  /** Frames that are ready for the transport, without held ones. */
  get #ready(): number {
    return this.#waiting.length - this.#first;
  }

  /**
   * Sends or queues answers, questions, and all events except deltas. They are never dropped. Frames of a held
   * session wait.
   */
  control(text: string, sessionId?: string): void {
    if (this.#isClosed) return;
    const held = sessionId === undefined ? undefined : this.#held.get(sessionId);
    if (!held && this.#ready === 0 && this.#isBelowLimit()) return this.#options.wire.send(text);
    this.#add({ text, size: text.length }, held);
  }

  event(event: GatewayEvent): void {
    if (this.#isClosed) return;
    if (isDelta(event)) return this.#delta(event);
    if (event.type === "message.complete") this.#forget(event.session_id);
    this.control(frameOf(event), event.session_id);
  }

  /** Holds back the session's events until `release` was called as often. They count towards the limits. */
  hold(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (held) held.calls += 1;
    else this.#held.set(sessionId, { calls: 1, waiting: [] });
  }

  release(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (!held) return;
    held.calls -= 1;
    if (held.calls > 0) return;
    this.#held.delete(sessionId);
    this.#heldFrames -= held.waiting.length;
    for (const each of held.waiting) this.#waiting.push(each);
    this.pump();
  }

  /** Sends as much as the transport accepts. Call it when the transport drains. */
  pump(): void {
    if (this.#isClosed) return;
    while (this.#ready > 0) {
      if (!this.#isBelowLimit()) return this.#later(POLL_MS);
      const next = this.#waiting[this.#first];
      if (!next) return;
      // The last delta waits for the tick, so that the next one can be merged into it.
      const waitMs = next.delta && this.#ready === 1 ? this.#lastDeltaMs + TICK_MS - this.#now() : 0;
      if (waitMs > 0) return this.#later(waitMs);
      this.#take();
      this.#send(next);
    }
    this.#settle();
  }

  /** See RpcPeer. */
  drained(): Promise<void> {
    if (this.#isClosed || !this.isHalfFull) return Promise.resolve();
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** Sends everything except held frames, however slow the transport is. For the end of the connection. */
  flush(): void {
    if (this.#isClosed) return;
    for (let next = this.#take(); next; next = this.#take()) this.#send(next);
    this.#settle();
  }

  /** Drops all waiting frames. */
  close(): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
    this.#waiting = [];
    this.#first = 0;
    this.#held.clear();
    this.#heldFrames = 0;
    this.#size = 0;
    this.#account?.close();
    this.#drained?.resolve();
  }

  #delta(event: Delta): void {
    const held = event.session_id === undefined ? undefined : this.#held.get(event.session_id);
    const key = streamOf(event);
    const dropped = this.#dropped.get(key);
    if (this.isHalfFull) {
      if (dropped) dropped.count += 1;
      else this.#dropped.set(key, { count: 1 });
      return;
    }
    const delta = dropped ? withDropped(event, dropped.count) : event;
    if (dropped) this.#dropped.delete(key);
    const last = held ? held.waiting.at(-1) : this.#ready > 0 ? this.#waiting.at(-1) : undefined;
    const merged = last?.delta && merge(last.delta, delta);
    if (last && merged) {
      const grown = delta.payload.text.length;
      last.delta = merged;
      last.size += grown;
      this.#resize(grown);
      return;
    }
    this.#add({ delta, size: delta.payload.text.length + ENVELOPE }, held);
  }

  #add(waiting: Waiting, held?: Held): void {
    (held?.waiting ?? this.#waiting).push(waiting);
    if (held) this.#heldFrames += 1;
    this.#resize(waiting.size);
    if (this.#isClosed) return;
    const { maxFrames, maxBytes, onOverflow } = this.#options;
    if (this.#ready + this.#heldFrames > maxFrames || this.#size > maxBytes) onOverflow();
    else if (!held) this.pump();
  }

  #take(): Waiting | undefined {
    const next = this.#waiting[this.#first];
    if (!next) return undefined;
    this.#first += 1;
    this.#resize(-next.size);
    if (this.#first > 1024 || this.#ready === 0) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    return next;
  }

  #send({ text, delta }: Waiting): void {
    if (delta) this.#lastDeltaMs = this.#now();
    this.#options.wire.send(delta ? frameOf(delta) : (text ?? ""));
  }

  #resize(grown: number): void {
    this.#size += grown;
    this.#account?.set(this.#size);
  }

  #later(ms: number): void {
    this.#settle();
    this.#cancelTimer ??= this.#options.clock.after(ms, () => {
      this.#cancelTimer = undefined;
      this.pump();
    });
  }

  #settle(): void {
    if (!this.#drained || this.isHalfFull) return;
    this.#drained.resolve();
    this.#drained = undefined;
  }

  /** Resets the counts of a session: its whole text includes the dropped deltas. */
  #forget(sessionId: string | undefined): void {
    for (const key of this.#dropped.keys()) if (key.startsWith(`${sessionId} `)) this.#dropped.delete(key);
  }

  #isBelowLimit(): boolean {
    return this.#options.wire.buffered() < WIRE_BYTES;
  }

  /** Whether writers are to wait, see {@link drained}. */
  get isHalfFull(): boolean {
    const { maxFrames, maxBytes } = this.#options;
    return this.#ready + this.#heldFrames > maxFrames / 2 || this.#size > maxBytes / 2;
  }

  #now(): number {
    return this.#options.clock.now();
  }
}

function frameOf(event: GatewayEvent): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "event", params: event });
}

export type Delta = GatewayEvents["message.delta" | "reasoning.delta" | "thinking.delta"];

export function isDelta(event: GatewayEvent): event is Delta {
  return (
    event.type === "message.delta" || event.type === "reasoning.delta" || event.type === "thinking.delta"
  );
}

/** Returns the key of a delta's stream. It starts with the session id. */
function streamOf({ session_id: session, type }: Delta): string {
  return `${session} ${type}`;
}

/** Adds the number of deltas that were dropped before this one. */
function withDropped<T extends Delta>(event: T, count: number): T {
  return { ...event, payload: { ...event.payload, dropped: count + (droppedOf(event) ?? 0) } };
}

/** Merges two deltas; undefined when `next` does not continue `last`. A thinking line replaces the previous one. */
function merge(last: Delta, next: Delta): Delta | undefined {
  if (last.type !== next.type || last.session_id !== next.session_id || last.turn_id !== next.turn_id) {
    return undefined;
  }
  const firstSeq = last.first_seq ?? last.seq;
  const text = next.type === "thinking.delta" ? next.payload.text : last.payload.text + next.payload.text;
  const dropped = (droppedOf(last) ?? 0) + (droppedOf(next) ?? 0);
  const payload = { ...next.payload, text, ...(dropped > 0 ? { dropped } : {}) };
  return { ...next, ...(firstSeq === undefined ? {} : { first_seq: firstSeq }), payload };
}

function droppedOf({ payload }: Delta): number | undefined {
  return "dropped" in payload ? payload.dropped : undefined;
}
