/** The newest lines of the log of this process. */
import { isRecord } from "../../base/data.ts";

export interface RingLine {
  /** Grows by one with each line, from 1. */
  readonly number: number;
  /** A JSON line, without secrets. */
  readonly text: string;
}

/** A parsed line. */
export interface LogLine {
  readonly timeMs: number;
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

const MAX_LINES = 10_000;
const MAX_CHARACTERS = 4_194_304;

export class LogRing {
  /** Names this process in positions. */
  readonly instance: string = crypto.randomUUID().slice(0, 8);
  #lines: RingLine[] = [];
  /** Index of the oldest line that is kept. */
  #start = 0;
  #characters = 0;
  #last = 0;
  readonly #waiting = new Set<() => void>();

  /** Number of the newest line; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  /** Number of the oldest line that is kept; one more than `last` when none is. */
  get first(): number {
    return this.#lines[this.#start]?.number ?? this.#last + 1;
  }

  readonly write = (line: string): void => {
    const text = line.slice(0, MAX_CHARACTERS);
    this.#lines.push({ number: ++this.#last, text });
    this.#characters += text.length;
    while (this.#lines.length - this.#start > MAX_LINES || this.#characters > MAX_CHARACTERS) {
      this.#characters -= this.#lines[this.#start++]?.text.length ?? 0;
    }
    // Dropped lines are removed together: one by one, each would move all the others.
    if (this.#start > MAX_LINES / 2) {
      this.#lines = this.#lines.slice(this.#start);
      this.#start = 0;
    }
    for (const wake of this.#waiting) wake();
  };

  /** Returns the kept lines behind a number, oldest first. */
  after(number: number): readonly RingLine[] {
    return this.#lines.slice(this.#start + Math.max(0, number + 1 - this.first));
  }

  /** Resolves when a line is written, and when `signal` aborts. */
  async changed(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
    await promise;
    this.#waiting.delete(resolve);
  }
}

/** Parses a line of the log; undefined when it is cut. */
export function parseLine(text: string): LogLine | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { time, level, message, ...fields } = value;
  return { timeMs: Date.parse(String(time)), level: String(level), message: String(message), fields };
}
