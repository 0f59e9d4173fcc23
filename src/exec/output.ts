import { secretHead, secretTail } from "../base/observe.ts";
import { openBytes, strayBytes } from "../base/text.ts";

/**
 * Keeps the beginning and the end of a byte stream in bounded memory: the first quarter of the limit and the last three
 * quarters, because commands report failures at the end.
 */
export class OutputExcerpt {
  readonly #head: Buffer;
  readonly #tail: Buffer;
  #seenBytes = 0;

  /** `maxBytes` is at least 4. */
  constructor(maxBytes: number) {
    const headBytes = Math.floor(maxBytes / 4);
    this.#head = Buffer.alloc(headBytes);
    this.#tail = Buffer.alloc(maxBytes - headBytes);
  }

  get seenBytes(): number {
    return this.#seenBytes;
  }

  /** Bytes that `text` leaves out. */
  get omittedBytes(): number {
    return Math.max(0, this.#seenBytes - this.#head.length - this.#tail.length);
  }

  push(bytes: Uint8Array): void {
    const toHead = Math.min(bytes.length, Math.max(0, this.#head.length - this.#seenBytes));
    this.#head.set(bytes.subarray(0, toHead), Math.min(this.#seenBytes, this.#head.length));
    const rest = bytes.subarray(toHead);
    const last = rest.subarray(Math.max(0, rest.length - this.#tail.length));
    const start = (this.#seenBytes + bytes.length - last.length - this.#head.length) % this.#tail.length;
    this.#seenBytes += bytes.length;
    if (last.length === 0) return;
    const untilWrap = Math.min(last.length, this.#tail.length - start);
    this.#tail.set(last.subarray(0, untilWrap), start);
    this.#tail.set(last.subarray(untilWrap), 0);
  }

  /**
   * Returns the kept text as UTF-8, with a line that gives the number of omitted bytes where it was cut. The cut falls
   * between characters and drops the remains of a known secret, which `redact` would no longer recognise.
   */
  text(): string {
    const inTail = Math.max(0, this.#seenBytes - this.#head.length);
    const cut = Math.max(0, inTail - this.#tail.length);
    const end = inTail % this.#tail.length;
    const tail = cut === 0 ? this.#tail.subarray(0, inTail) : rotated(this.#tail, end);
    const head = this.#head.subarray(0, Math.min(this.#seenBytes, this.#head.length));
    if (cut === 0) return new TextDecoder().decode(Buffer.concat([head, tail]));
    const [open, stray] = [openBytes(head), strayBytes(tail)];
    const before = new TextDecoder().decode(head.subarray(0, head.length - open));
    const after = new TextDecoder().decode(tail.subarray(stray));
    const from = secretHead(after);
    const to = before.length - secretTail(before);
    const hidden = Buffer.byteLength(before.slice(to)) + Buffer.byteLength(after.slice(0, from));
    const omitted = cut + open + stray + hidden;
    return `${before.slice(0, to)}\n[... ${omitted} bytes omitted ...]\n${after.slice(from)}`;
  }
}

const rotated = (ring: Buffer, at: number): Buffer =>
  Buffer.concat([ring.subarray(at), ring.subarray(0, at)]);

/** Keeps the newest bytes of a stream for a reader that polls, and returns what is new since the last poll. */
export class OutputRing {
  readonly #max: number;
  #chunks: Uint8Array[] = [];
  #kept = 0;
  #dropped = 0;
  /** Bytes of a character that was incomplete at the last `take`. */
  #open = 0;

  /** Keeps up to `maxBytes` unread bytes; drops and counts older ones. */
  constructor(maxBytes: number) {
    this.#max = maxBytes;
  }

  get isEmpty(): boolean {
    return this.#kept === this.#open && this.#dropped === 0;
  }

  push(bytes: Uint8Array): void {
    // Copies: the stream may reuse its buffer.
    const own = bytes.slice(-this.#max);
    this.#dropped += bytes.length - own.length;
    this.#chunks.push(own);
    this.#kept += own.length;
    while (this.#kept > this.#max) this.#drop(this.#kept - this.#max);
  }

  /**
   * Returns the text since the last call, preceded by a note when bytes were dropped. An incomplete character stays
   * until its rest arrives; `isEnded` says that nothing more arrives.
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

// Keeps a byte order mark as text: any poll may start with one.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
