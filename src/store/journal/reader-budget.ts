/** Default of `limits.max_reader_bytes`. */
const DEFAULT_READER_BYTES = 67_108_864;

/**
 * One limit, in bytes, for everything that waits in this process for readers of events: pages read for them, events
 * buffered for them, and the queues of their streams and sockets. Data that can be read again is dropped first. Then
 * the reader that has not read for the longest time is disconnected; it resumes with its cursor. So no client waits for
 * a reader that does not read.
 */
export class ReaderBudget {
  readonly maxBytes: number;
  #usedBytes = 0;
  /** Queues with waiting data, the one without progress for the longest time first. */
  readonly #waiting = new Set<ReaderQueue>();
  #reclaim: (bytes: number) => void = () => {};

  constructor(maxBytes: number = DEFAULT_READER_BYTES) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /**
   * Opens the queue of a stream. `cut` is called once if the stream must be disconnected; its bytes are released by
   * then.
   */
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

  /** `reclaim` is called to drop about that many bytes reserved with {@link tryTake}. */
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

  /**
   * Returns the queue without progress for the longest time, among those of at least average size, since only these
   * help.
   */
  #victim(): ReaderQueue | undefined {
    let total = 0;
    for (const queue of this.#waiting) total += queue.bytes();
    const average = total / this.#waiting.size;
    for (const queue of this.#waiting) if (queue.bytes() >= average) return queue;
    return undefined;
  }
}

/** The waiting bytes of one stream. */
export interface ReaderQueue {
  bytes(): number;
  /** Sets how many bytes wait now. Fewer than before counts as progress. May cut this stream or another. */
  set(bytes: number): void;
  /** Releases all of its bytes. */
  close(): void;
  cut(): void;
}
