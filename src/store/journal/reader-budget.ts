/** Default of `limits.max_reader_bytes`. */
export const DEFAULT_READER_BYTES = 67_108_864;

/**
 * One bound, in bytes, over everything that waits in this process for readers of events: pages read for them, events
 * handed to them, and the queues of their streams and sockets. What can be read again is dropped first. Then a reader
 * is cut that has not read for longest; it resumes with its cursor. So no client waits for a reader that does not read.
 */
export class ReaderBudget {
  readonly maxBytes: number;
  #usedBytes = 0;
  /** Those that have something waiting, the one that has made no progress for longest first. */
  readonly #waiting = new Set<ReaderQueue>();
  #reclaim: (bytes: number) => void = () => {};

  constructor(maxBytes: number = DEFAULT_READER_BYTES) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Opens the account of a stream. `cut` is called once, when it has to go; its bytes are given back by then. */
  open(cut: () => void): ReaderQueue {
    let waitingBytes = 0;
    const set = (bytes: number) => {
      const grown = bytes - waitingBytes;
      waitingBytes = bytes;
      this.#usedBytes += grown;
      if (grown < 0 || bytes === 0) this.#waiting.delete(queue);
      if (bytes > 0) this.#waiting.add(queue);
      if (grown > 0) this.#relieve();
    };
    const queue: ReaderQueue = { bytes: () => waitingBytes, set, close: () => set(0), cut };
    return queue;
  }

  /** Reserves memory for data that can be read again at any time. Returns false, and reserves nothing, if too little is left. */
  tryTake(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.maxBytes) return false;
    this.#usedBytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  /** `reclaim` is called to drop about so many bytes that were taken with {@link tryTake}. */
  onPressure(reclaim: (bytes: number) => void): void {
    this.#reclaim = reclaim;
  }

  #relieve(): void {
    if (this.#usedBytes > this.maxBytes) this.#reclaim(this.#usedBytes - this.maxBytes);
    while (this.#usedBytes > this.maxBytes) {
      const victim = this.#victim();
      if (!victim) return;
      victim.close();
      victim.cut();
    }
  }

  /** Of those that hold at least the average, which is what helps, the one without progress for longest. */
  #victim(): ReaderQueue | undefined {
    let total = 0;
    for (const queue of this.#waiting) total += queue.bytes();
    const average = total / this.#waiting.size;
    for (const queue of this.#waiting) if (queue.bytes() >= average) return queue;
    return undefined;
  }
}

/** What waits in one stream. */
export interface ReaderQueue {
  bytes(): number;
  /** Says how many bytes wait now. Fewer than before is progress. It may cut this stream or another. */
  set(bytes: number): void;
  /** Gives everything back. */
  close(): void;
  cut(): void;
}
