/** The connection to the client as a stream of messages: bounded both ways, and nothing lost at its end. */
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk/unstable";
import type { Clock } from "../../base/clock.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { Lines, type Line } from "../../base/lines.ts";
import { isRecord } from "../../base/json/schema.ts";

interface WireOptions {
  readonly input: AsyncIterable<Uint8Array>;
  readonly output: FrameOutput;
  readonly clock: Clock;
  /** The client will send no more: what runs is to end, so that open requests are answered. */
  readonly onEnd: () => void;
}

type RequestId = string | number | null;
/** Is told of every message, before it goes on. It MUST NOT throw. */
export type WireWatcher = (direction: "in" | "out", message: AnyMessage) => unknown;

/** What is read until the configuration says what a line may have. */
const DEFAULT_MAX_LINE_BYTES = 33_554_432;
/** How long answers get to leave when the client has closed its end. */
const DRAIN_MS = 2_000;
/** Whoever sends waits while this much waits for the client to read it. */
const SEND_PAUSE_BYTES = 1_048_576;
/** Above this nothing is read either: a client that asks without reading would fill the memory with answers. */
const READ_PAUSE_BYTES = 8_388_608;
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
  #drainedOnce = Promise.withResolvers<void>();
  #messageCount = 0;
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
      await this.#waitBelow(READ_PAUSE_BYTES, () => this.#isEnded);
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
    this.#notify("in", message);
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
    await this.#waitBelow(SEND_PAUSE_BYTES);
  }

  #write(message: AnyMessage): void {
    this.#notify("out", message);
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
  async #waitBelow(bytes: number, isOver: () => boolean = () => false): Promise<void> {
    while (!this.#isBroken && !isOver() && this.#options.output.buffered() >= bytes) {
      await this.#drainedOnce.promise;
    }
  }

  #wake(): void {
    this.#drainedOnce.resolve();
    this.#drainedOnce = Promise.withResolvers();
  }

  #notify(direction: "in" | "out", message: AnyMessage): void {
    if (this.#messageCount < FIRST_MESSAGES) this.#first.push([direction, message]);
    this.#messageCount += 1;
    for (const watcher of this.#watchers) watcher(direction, message);
  }
}

/** What came of a line: a message, or the answer that the client gets instead. */
type ReadLine = { readonly message: AnyMessage } | { readonly answer: AnyMessage };

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

/** Undefined for a line of nothing but blanks. `maxBytes` is what a line may have, for the error. */
export function readLine(line: Line, maxBytes: number): ReadLine | undefined {
  if (!("text" in line)) {
    if (line.problem === "long") return tooLong(line.head, maxBytes);
    return { answer: failure(null, PARSE_ERROR, "This line is not UTF-8.") };
  }
  if (/^\s*$/.test(line.text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(line.text);
  } catch {
    return { answer: failure(null, PARSE_ERROR, "This line is not JSON.") };
  }
  const problem = findProblem(value);
  if (problem !== undefined) return { answer: failure(null, INVALID_REQUEST, problem) };
  return { message: value as AnyMessage };
}

/** One line, without its end. JSON may hold two characters that some readers take for the end of a line. */
export function toLine(message: AnyMessage): string {
  const text = JSON.stringify(message);
  if (!/[\u2028\u2029]/.test(text)) return text;
  return text.replaceAll("\u2028", String.raw`\u2028`).replaceAll("\u2029", String.raw`\u2029`);
}

export function failure(
  id: string | number | null,
  code: number,
  message: string,
  data?: Readonly<Record<string, unknown>>,
): AnyMessage {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data ? { data } : {}) } };
}

/** What the SDK takes, it answers or passes over; it would send the rest back, of whatever size. */
function findProblem(value: unknown): string | undefined {
  if (Array.isArray(value)) return "Batches are not supported: send one message a line.";
  if (!isRecord(value)) return "A message is a JSON object.";
  const { jsonrpc, id, method } = value;
  const isCall = typeof method === "string";
  if (!isCall && !("method" in value) && ("result" in value || "error" in value)) return undefined;
  if (jsonrpc !== "2.0") return 'A message has "jsonrpc": "2.0".';
  if (!isCall) return "A message has a method, or is an answer with a result or an error.";
  return "id" in value && !isId(id) ? "An id is a string, a number or null." : undefined;
}

function isId(id: unknown): id is string | number | null {
  return id === null || typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}

/**
 * Whoever waits for what the line was is told: the client, when its head is that of a request; our own side, when it is
 * that of an answer.
 */
function tooLong(head: string, maxBytes: number): ReadLine {
  const message = `A message has at most ${maxBytes} bytes (acp.max_line_bytes).`;
  const own = /^\s*\{[^{[]*/.exec(head)?.[0] ?? "";
  const id = /"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.)*")\s*[,}]/.exec(own)?.[1];
  const kind = /"(method|result|error)"\s*:/.exec(own)?.[1];
  if (id === undefined || kind === undefined) return { answer: failure(null, INVALID_REQUEST, message) };
  const error = failure(JSON.parse(id) as string | number, INVALID_REQUEST, message);
  return kind === "method" ? { answer: error } : { message: error };
}
