/** A stream that can hold its writes back; Node's sockets can. */
export interface Corkable {
  cork(): void;
  uncork(): void;
}

/**
 * What is written to the stream in one turn of the event loop leaves by one call of the system. Such a call costs more
 * than all else that a short answer takes, most of it to wake the reader.
 */
export class WriteCoalescer {
  readonly #stream: Corkable;
  #isCorked = false;
  readonly #release = () => {
    this.#isCorked = false;
    this.#stream.uncork();
  };

  constructor(stream: Corkable) {
    this.#stream = stream;
  }

  /** To be called before each write. */
  gather(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#stream.cork();
    setImmediate(this.#release);
  }

  /** Lets go what was gathered: it is worth a call of its own. */
  flush(): void {
    if (this.#isCorked) this.#release();
  }
}
