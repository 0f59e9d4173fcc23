import { openBytes, strayBytes } from "../base/text.ts";
import { secretHead, secretTail } from "../base/observe/redact.ts";

/**
 * The beginning and the end of a stream of bytes, in memory that does not grow: a quarter of the limit is kept from
 * the start, the rest from the end, where commands say what went wrong.
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

  /** What the text leaves out. */
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
   * Returns the text kept, as UTF-8; where something was cut, a line between the two parts says how many bytes. No
   * character is cut in two, and no half of a known secret stands at the cut, where it would not be known as one.
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
    return `${before.slice(0, to)}\n[... ${omitted} bytes cut here ...]\n${after.slice(from)}`;
  }
}

const rotated = (ring: Buffer, at: number): Buffer =>
  Buffer.concat([ring.subarray(at), ring.subarray(0, at)]);
