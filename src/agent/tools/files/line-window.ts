interface WindowLimits {
  /** Number of the first line wanted, from 1. */
  readonly first: number;
  readonly maxLines: number;
  readonly maxLineCharacters: number;
  readonly maxCharacters: number;
}

const LINE_FEED = 10;

/** Picks numbered lines out of a stream of bytes, in memory bounded by the limits however long a line is. */
export class LineWindow {
  readonly #limits: WindowLimits;
  readonly lines: string[] = [];
  /** True once something after the lines picked was seen. */
  more = false;
  #kept: Uint8Array[] = [];
  #keptBytes = 0;
  #lineBytes = 0;
  #characters = 0;
  #ended = 0;

  constructor(limits: WindowLimits) {
    this.#limits = limits;
  }

  get first(): number {
    return this.#limits.first;
  }

  /** Lines that ended so far. */
  get seenLines(): number {
    return this.#ended;
  }

  /** Takes the next bytes; true when the window is full and needs no more. */
  push(chunk: Buffer): boolean {
    let start = 0;
    while (start < chunk.length) {
      if (this.#isFull()) {
        this.more = true;
        return true;
      }
      const feed = chunk.indexOf(LINE_FEED, start);
      this.#extend(chunk.subarray(start, feed === -1 ? chunk.length : feed));
      if (feed === -1) return false;
      this.#finishLine();
      start = feed + 1;
    }
    return false;
  }

  /** The stream is over: a last line without a line feed counts. */
  end(): void {
    if (this.#lineBytes > 0 && !this.#isFull()) this.#finishLine();
  }

  #isFull(): boolean {
    return this.lines.length >= this.#limits.maxLines || this.#characters >= this.#limits.maxCharacters;
  }

  #extend(part: Uint8Array): void {
    this.#lineBytes += part.length;
    // Four bytes a character at most, and one character more to see that the line is too long.
    const deps = (this.#limits.maxLineCharacters + 1) * 4 - this.#keptBytes;
    if (deps <= 0 || this.#ended + 1 < this.#limits.first) return;
    const kept = part.slice(0, deps);
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }

  #finishLine(): void {
    this.#ended += 1;
    if (this.#ended >= this.#limits.first) this.#keep();
    this.#kept = [];
    this.#keptBytes = 0;
    this.#lineBytes = 0;
  }

  #keep(): void {
    const { maxLineCharacters } = this.#limits;
    const whole = new TextDecoder().decode(Buffer.concat(this.#kept)).replace(/\r$/, "");
    const isLong = whole.length > maxLineCharacters || this.#lineBytes > this.#keptBytes;
    const cut = whole.slice(0, maxLineCharacters).replace(/[\uD800-\uDBFF]$/, "");
    const text = isLong ? `${cut} [... line cut, ${this.#lineBytes} bytes in all]` : whole;
    this.lines.push(`${this.#ended}\t${text}`);
    this.#characters += text.length + 8;
  }
}
