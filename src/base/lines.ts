/** Splits a stream of bytes into lines, at \n alone: JSON text may contain U+2028 and the like. Pure. */

export type Line =
  | { readonly text: string; readonly sizeBytes: number }
  /** The bytes are not UTF-8. */
  | { readonly problem: "utf8" }
  /** More bytes than a line may have. Only the first of them are kept. */
  | { readonly problem: "long"; readonly head: string };

const NEW_LINE = 10;
const HEAD_BYTES = 512;

export class Lines {
  #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #parts: Uint8Array[] = [];
  #size = 0;
  #head = "";

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Sets the limit in bytes for lines from now on. */
  limit(maxBytes: number): void {
    this.#maxBytes = maxBytes;
  }

  /** Yields the lines that `chunk` completes. */
  *push(chunk: Uint8Array): Generator<Line> {
    let start = 0;
    for (let end = chunk.indexOf(NEW_LINE); end !== -1; end = chunk.indexOf(NEW_LINE, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      yield this.#line();
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** Yields what follows the last line break, if anything. */
  *end(): Generator<Line> {
    if (this.#size > 0) yield this.#line();
  }

  /** Keeps only the length and the head of a line that is too long. */
  #add(part: Uint8Array): void {
    const wasLong = this.#size > this.#maxBytes;
    this.#size += part.length;
    if (part.length > 0 && !wasLong) this.#parts.push(part);
    if (wasLong || this.#size <= this.#maxBytes) return;
    this.#head = headOf(this.#parts);
    this.#parts = [];
  }

  #line(): Line {
    const [parts, sizeBytes] = [this.#parts, this.#size];
    this.#parts = [];
    this.#size = 0;
    if (sizeBytes > this.#maxBytes) return { problem: "long", head: this.#head };
    try {
      return { text: this.#decoder.decode(joined(parts, sizeBytes)), sizeBytes };
    } catch {
      return { problem: "utf8" };
    }
  }
}

function headOf(parts: readonly Uint8Array[]): string {
  let head = "";
  const decoder = new TextDecoder();
  for (let at = 0, deps = HEAD_BYTES; at < parts.length && deps > 0; at += 1) {
    const part = parts[at]?.subarray(0, deps) ?? new Uint8Array();
    head += decoder.decode(part, { stream: true });
    deps -= part.length;
  }
  return head;
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
