import type { Cursor } from "../../generated/gateway/types/types.gen.ts";
import { EventsLostError } from "./gateway-error.ts";
import type { GatewayClientEvent } from "./gateway-types.ts";

export interface QueueOptions {
  readonly maxEvents: number;
  /** Characters of the frames that wait. */
  readonly maxSize: number;
  /** The queue is read no more. */
  readonly onEnd: () => void;
}

/** An event that waits. */
interface Waiting {
  event: GatewayClientEvent;
  size: number;
  readonly epoch: string;
}

type Read = PromiseWithResolvers<IteratorResult<GatewayClientEvent>>;
type Delta = Extract<
  GatewayClientEvent,
  { readonly type: "message.delta" | "reasoning.delta" | "thinking.delta" }
>;

/** Events on their way to one reader: bounded, in order; deltas of one stream merge while they wait. */
export class EventQueue implements AsyncIterableIterator<GatewayClientEvent> {
  readonly #options: QueueOptions;
  readonly #cursors = new Map<string, Cursor>();
  #waiting: Waiting[] = [];
  #first = 0;
  #size = 0;
  #reads: Read[] = [];
  #ended: { readonly error?: Error } | undefined;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** `size` is the length of the event's frame. */
  push(event: GatewayClientEvent, size: number, epoch: string): void {
    if (this.#ended) return;
    const read = this.#reads.shift();
    if (read) return read.resolve(this.#hand({ event, size, epoch }));
    const last = this.#waiting.at(-1);
    const merged = last && merge(last.event, event);
    if (merged) {
      last.event = merged;
      last.size += size;
    } else {
      this.#waiting.push({ event, size, epoch });
    }
    this.#size += size;
    const { maxEvents, maxSize } = this.#options;
    if (this.#waiting.length - this.#first <= maxEvents && this.#size <= maxSize) return;
    this.#clear();
    this.end(new EventsLostError(this.#cursors));
  }

  /** Nothing comes any more; what waits can be read. The last read throws `error`, if there is one. */
  end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = error ? { error } : {};
    this.#options.onEnd();
    const reads = this.#reads;
    this.#reads = [];
    for (const read of reads) void this.next().then(read.resolve, read.reject);
  }

  next(): Promise<IteratorResult<GatewayClientEvent>> {
    const waiting = this.#waiting[this.#first];
    if (waiting) {
      this.#first += 1;
      this.#size -= waiting.size;
      if (this.#first > 512 || this.#first === this.#waiting.length) {
        this.#waiting = this.#waiting.slice(this.#first);
        this.#first = 0;
      }
      return Promise.resolve(this.#hand(waiting));
    }
    if (this.#ended) {
      const { error } = this.#ended;
      this.#ended = {};
      return error ? Promise.reject(error) : Promise.resolve({ done: true, value: undefined });
    }
    const read: Read = Promise.withResolvers();
    this.#reads.push(read);
    return read.promise;
  }

  return(): Promise<IteratorResult<GatewayClientEvent>> {
    this.#clear();
    this.end();
    this.#ended = {};
    return this.next();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #hand({ event, epoch }: Waiting): IteratorResult<GatewayClientEvent> {
    if ("seq" in event && event.seq !== undefined && event.session_id) {
      this.#cursors.set(event.session_id, { epoch, last_seen: event.seq });
    }
    return { done: false, value: event };
  }

  #clear(): void {
    this.#waiting = [];
    this.#first = 0;
    this.#size = 0;
  }
}

/** As the gateway merges them. Undefined when `next` does not continue `last`. */
function merge(last: GatewayClientEvent, next: GatewayClientEvent): GatewayClientEvent | undefined {
  if (!isDelta(last) || !isDelta(next) || last.type !== next.type) return undefined;
  if (last.session_id !== next.session_id || last.turn_id !== next.turn_id) return undefined;
  const first = last.first_seq ?? last.seq;
  // A thinking line replaces the one before.
  const text = next.type === "thinking.delta" ? next.payload.text : last.payload.text + next.payload.text;
  const dropped = droppedOf(last) + droppedOf(next);
  return {
    ...next,
    ...(first === undefined ? {} : { first_seq: first }),
    payload: { ...next.payload, text, ...(dropped > 0 ? { dropped } : {}) },
  };
}

function isDelta(event: GatewayClientEvent): event is Delta {
  return /^(message|reasoning|thinking)\.delta$/.test(event.type);
}

function droppedOf({ payload }: Delta): number {
  return ("dropped" in payload ? payload.dropped : undefined) ?? 0;
}
