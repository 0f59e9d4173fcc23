/** The connection to the client as a stream of messages: bounded both ways, and nothing lost at its end. */
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk/unstable";
import type { Clock } from "../../base/clock.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { Lines, type Line } from "../../base/lines.ts";
import { failure, readLine, toLine } from "./message-line.ts";

export interface WireOptions {
  readonly input: AsyncIterable<Uint8Array>;
  readonly output: FrameOutput;
  readonly clock: Clock;
  /** The client will send no more: what runs is to end, so that open requests are answered. */
  readonly onEnd: () => void;
}

export type RequestId = string | number | null;
/** Is told of every message, before it goes on. It MUST NOT throw. */
export type WireWatcher = (direction: "in" | "out", message: AnyMessage) => unknown;

/** What is read until the configuration says what a line may have. */
export const DEFAULT_MAX_LINE_BYTES = 33_554_432;
/** How long answers get to leave when the client has closed its end. */
const DRAIN_MS = 2_000;
/** Whoever sends waits while this much waits for the client to read it. */
const FULL_BYTES = 1_048_576;
/** Above this nothing is read either: a client that asks without reading would fill the memory with answers. */
const FLOODED_BYTES = 8_388_608;
/** Requests that may wait for their answers; more are refused. */
const MAX_OPEN_REQUESTS = 1_024;
/** A greeting and its answer, a session and its answer. */
const FIRST_MESSAGES = 4;
const OVERLOADED = -32_603;

/**
 * Own, because the SDK's stream closes at a line that is too long, and at the end of the input, which loses the answers
 * to what was just read.
 */
export class Wire {
  readonly stream: Stream;
  readonly #options: WireOptions;
  readonly #lines = new Lines(DEFAULT_MAX_LINE_BYTES);
  #maxLineBytes = DEFAULT_MAX_LINE_BYTES;
  readonly #watchers = new Set<WireWatcher>();
  /** The greeting: it is over before anybody knows whether it is to be written down. */
  #first: Parameters<WireWatcher>[] = [];
  /** How many of each: a client may use an id twice. */
  readonly #open = new Map<RequestId, number>();
  readonly #hooks = new Map<RequestId, (() => void)[]>();
  #isEnded = false;
  /** Ends a wait for what the client sends. */
  #stopWaiting = () => {};
  readonly #settled = Promise.withResolvers<void>();
  #roomMade = Promise.withResolvers<void>();
  #told = 0;
  #isBroken = false;
  #isDraining = false;

  constructor(options: WireOptions) {
    this.#options = options;
    const { output } = options;
    output.onDrain(() => this.#wake());
    output.onBroken(() => {
      this.#isBroken = true;
      this.#wake();
      this.end();
    });
    const messages = this.#messages();
    this.stream = {
      readable: new ReadableStream<AnyMessage>({
        async pull(controller) {
          const next = await messages.next();
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        },
      }),
      writable: new WritableStream<AnyMessage>({ write: (message) => this.#send(message) }),
    };
  }

  /** Runs `after` once the answer to a request is on its way; never when the connection ends first. */
  afterAnswer(id: RequestId, after: () => void): void {
    this.#hooks.set(id, [...(this.#hooks.get(id) ?? []), after]);
  }

  /** Bytes that a line may have from now on. */
  limit(maxLineBytes: number): void {
    this.#maxLineBytes = maxLineBytes;
    this.#lines.limit(maxLineBytes);
  }

  /** The result ends it. */
  watch(watcher: WireWatcher): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** The first messages of the connection, for whoever comes late; once. */
  takeFirst(): readonly Parameters<WireWatcher>[] {
    return this.#first.splice(0);
  }

  /** Reads no more, as if the client had closed its end: the stream closes when what was read is answered. */
  end(): void {
    this.#isEnded = true;
    this.#stopWaiting();
    this.#wake();
  }

  async *#messages(): AsyncGenerator<AnyMessage, void> {
    const chunks = this.#options.input[Symbol.asyncIterator]();
    while (!this.#isEnded) {
      const next = await this.#unlessEnded(chunks.next());
      if (!next || next.done) break;
      yield* this.#take(this.#lines.push(next.value));
      await this.#roomFor(FLOODED_BYTES, () => this.#isEnded);
    }
    yield* this.#take(this.#lines.end());
    await this.#drained();
  }

  /** Undefined when the connection ended first, or the input broke. Not a race: that one would keep every chunk. */
  #unlessEnded<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve) => {
      this.#stopWaiting = () => resolve(undefined);
      work.then(resolve, this.#stopWaiting);
    });
  }

  *#take(lines: Iterable<Line>): Generator<AnyMessage> {
    for (const line of lines) {
      const read = readLine(line, this.#maxLineBytes);
      if (!read) continue;
      const message = "message" in read ? this.#admit(read.message) : undefined;
      if (message) yield message;
      else if ("answer" in read) this.#write(read.answer);
    }
  }

  #admit(message: AnyMessage): AnyMessage | undefined {
    this.#tell("in", message);
    if (!("method" in message) || !("id" in message)) return message;
    if (this.#open.size >= MAX_OPEN_REQUESTS) {
      const text = `At most ${MAX_OPEN_REQUESTS} requests may be open. Send this one again when one was answered.`;
      this.#write(failure(message.id, OVERLOADED, text, { kind: "overloaded", retryable: true }));
      return undefined;
    }
    this.#open.set(message.id, (this.#open.get(message.id) ?? 0) + 1);
    return message;
  }

  async #send(message: AnyMessage): Promise<void> {
    this.#write(message);
    if (!("method" in message) && "id" in message) this.#answered(message.id);
    await this.#roomFor(FULL_BYTES);
  }

  #write(message: AnyMessage): void {
    this.#tell("out", message);
    if (!this.#isBroken) this.#options.output.write(`${toLine(message)}\n`);
  }

  #answered(id: RequestId): void {
    const left = (this.#open.get(id) ?? 1) - 1;
    if (left > 0) this.#open.set(id, left);
    else this.#open.delete(id);
    const hooks = this.#hooks.get(id) ?? [];
    this.#hooks.delete(id);
    // Now: what a hook begins, such as loading modules, may leave no room for the answer for long.
    if (hooks.length > 0) void this.#options.output.flushed();
    for (const run of hooks) run();
    if (this.#isDraining && this.#open.size === 0) this.#settled.resolve();
  }

  async #drained(): Promise<void> {
    this.#isDraining = true;
    this.#options.onEnd();
    if (this.#open.size === 0 || this.#isBroken) return;
    const cancel = this.#options.clock.after(DRAIN_MS, () => this.#settled.resolve());
    await this.#settled.promise;
    cancel();
  }

  /** Resolves when less than `bytes` wait to leave, or nobody reads any more. */
  async #roomFor(bytes: number, isOver: () => boolean = () => false): Promise<void> {
    while (!this.#isBroken && !isOver() && this.#options.output.buffered() >= bytes) {
      await this.#roomMade.promise;
    }
  }

  #wake(): void {
    this.#roomMade.resolve();
    this.#roomMade = Promise.withResolvers();
  }

  #tell(direction: "in" | "out", message: AnyMessage): void {
    if (this.#told < FIRST_MESSAGES) this.#first.push([direction, message]);
    this.#told += 1;
    for (const watcher of this.#watchers) watcher(direction, message);
  }
}
