/** Cuts a stream of bytes into lines, at \n alone: U+2028 and its like stand in JSON text as they are. Pure. */

export type Line =
  | { readonly text: string; readonly sizeBytes: number }
  /** `utf8`: the bytes are no UTF-8; `long`: more bytes than a line may have, what they were is gone. */
  | { readonly flaw: "utf8" | "long" };

const NEW_LINE = 10;

export class Lines {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #parts: Uint8Array[] = [];
  #size = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that `chunk` ends. */
  *push(chunk: Uint8Array): Generator<Line> {
    let start = 0;
    for (let end = chunk.indexOf(NEW_LINE); end !== -1; end = chunk.indexOf(NEW_LINE, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      yield this.#line();
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** What stands behind the last line break, if anything. */
  *end(): Generator<Line> {
    if (this.#size > 0) yield this.#line();
  }

  /** Of a line that is too long only the length is kept. */
  #add(part: Uint8Array): void {
    this.#size += part.length;
    if (this.#size > this.#maxBytes) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  #line(): Line {
    const [parts, sizeBytes] = [this.#parts, this.#size];
    this.#parts = [];
    this.#size = 0;
    if (sizeBytes > this.#maxBytes) return { flaw: "long" };
    try {
      return { text: this.#decoder.decode(joined(parts, sizeBytes)), sizeBytes };
    } catch {
      return { flaw: "utf8" };
    }
  }
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
