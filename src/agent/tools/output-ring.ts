/** The end of a stream of bytes for a reader who comes now and then: what is new since the last look, as far as kept. */
export class OutputRing {
  readonly #max: number;
  #chunks: Uint8Array[] = [];
  #kept = 0;
  #dropped = 0;

  /** `maxBytes` unread bytes are kept; older ones are dropped, and counted. */
  constructor(maxBytes: number) {
    this.#max = maxBytes;
  }

  get isEmpty(): boolean {
    return this.#kept === 0 && this.#dropped === 0;
  }

  push(bytes: Uint8Array): void {
    // A copy: the stream may use its buffer again.
    const own = bytes.slice(-this.#max);
    this.#dropped += bytes.length - own.length;
    this.#chunks.push(own);
    this.#kept += own.length;
    while (this.#kept > this.#max) this.#drop(this.#kept - this.#max);
  }

  /** The text since the last call, with a note where something was dropped before it. */
  take(): string {
    const bytes = Buffer.concat(this.#chunks);
    const note = this.#dropped > 0 ? `[... ${this.#dropped} bytes dropped here ...]\n` : "";
    this.#chunks = [];
    this.#kept = 0;
    this.#dropped = 0;
    return note + new TextDecoder().decode(bytes);
  }

  #drop(excess: number): void {
    const first = this.#chunks[0];
    if (!first) return;
    const gone = Math.min(excess, first.length);
    if (gone === first.length) this.#chunks.shift();
    else this.#chunks[0] = first.subarray(gone);
    this.#kept -= gone;
    this.#dropped += gone;
  }
}
