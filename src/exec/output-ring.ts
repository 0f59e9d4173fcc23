import { openBytes, strayBytes } from "../base/text.ts";

/** The end of a stream of bytes for a reader who comes now and then: what is new since the last look, as far as kept. */
export class OutputRing {
  readonly #max: number;
  #chunks: Uint8Array[] = [];
  #kept = 0;
  #dropped = 0;
  /** Bytes of a character that was not whole at the last look. */
  #open = 0;

  /** `maxBytes` unread bytes are kept; older ones are dropped, and counted. */
  constructor(maxBytes: number) {
    this.#max = maxBytes;
  }

  get isEmpty(): boolean {
    return this.#kept === this.#open && this.#dropped === 0;
  }

  push(bytes: Uint8Array): void {
    // A copy: the stream may use its buffer again.
    const own = bytes.slice(-this.#max);
    this.#dropped += bytes.length - own.length;
    this.#chunks.push(own);
    this.#kept += own.length;
    while (this.#kept > this.#max) this.#drop(this.#kept - this.#max);
  }

  /**
   * Returns the text since the last call, with a note where something was dropped before it. A character that is not
   * whole waits for its rest; `isEnded` says that none comes.
   */
  take(isEnded = false): string {
    const bytes = Buffer.concat(this.#chunks);
    const stray = this.#dropped > 0 ? strayBytes(bytes) : 0;
    const note = this.#dropped > 0 ? `[... ${this.#dropped + stray} bytes dropped here ...]\n` : "";
    this.#open = isEnded ? 0 : openBytes(bytes);
    const end = bytes.length - this.#open;
    this.#chunks = this.#open > 0 ? [bytes.subarray(end)] : [];
    this.#kept = this.#open;
    this.#dropped = 0;
    return note + decoder.decode(bytes.subarray(stray, end));
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

// A byte order mark is text like any other: it may stand at the start of any look.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
