/** The live output of a call, in as little as a client needs of it. Pure. */
import { tailOf } from "./tool-text.ts";

const MAX_LIVE_BYTES = 8_192;
/** What may be told before there was as much output: short outputs are shown at once. */
const FREE_BYTES = 16_384;

/** For clients that show the end of the output anew each time: what they are sent never exceeds twice the output. */
export class LiveTail {
  #text = "";
  #seenBytes = 0;
  #toldBytes = 0;
  /** Of texts that others came in place of. */
  #replacedBytes = 0;
  #isNew = false;

  push(delta: string): void {
    this.#seenBytes += Buffer.byteLength(delta);
    this.#text = tailOf(this.#text + delta, MAX_LIVE_BYTES).text;
    this.#isNew = true;
  }

  /** What was there is told no more: a list that changed. */
  replace(text: string): void {
    if (text === this.#text) return;
    this.#text = "";
    this.#replacedBytes = this.#seenBytes;
    this.push(text);
  }

  /** Undefined when there is nothing new, or it would be too much by now. */
  take(): { readonly text: string; readonly omittedBytes: number } | undefined {
    const bytes = Buffer.byteLength(this.#text);
    if (!this.#isNew || this.#toldBytes + bytes > 2 * this.#seenBytes + FREE_BYTES) return undefined;
    this.#isNew = false;
    this.#toldBytes += bytes;
    return { text: this.#text, omittedBytes: this.#seenBytes - this.#replacedBytes - bytes };
  }
}

/** For clients that add each piece to the ones before: of what comes too fast the end is kept. */
export class LivePieces {
  #text = "";
  #omittedBytes = 0;
  /** Bytes of all output. */
  seenBytes = 0;

  push(delta: string): void {
    this.seenBytes += Buffer.byteLength(delta);
    const { text, omittedBytes } = tailOf(this.#text + delta, MAX_LIVE_BYTES);
    this.#text = text;
    this.#omittedBytes += omittedBytes;
  }

  take(): string | undefined {
    if (this.#text === "") return undefined;
    const piece =
      this.#omittedBytes > 0 ? `\n[${this.#omittedBytes} bytes omitted]\n${this.#text}` : this.#text;
    this.#text = "";
    this.#omittedBytes = 0;
    return piece;
  }
}
