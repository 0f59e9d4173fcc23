/** The connection to the client as a stream of messages, bounded in both directions and drained at its end. */
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk/unstable";
import type { Clock } from "../../base/time.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { Lines, type Line } from "../../base/text.ts";
import { isRecord } from "../../base/data.ts";
import { explainInvalidParams } from "./error.ts";

interface WireOptions {
  readonly input: AsyncIterable<Uint8Array>;
  readonly output: FrameOutput;
  readonly clock: Clock;
  /** Called when the client stops sending: active work must end so that open requests get their responses. */
  readonly onEnd: () => void;
}

type RequestId = string | number | null;
/** Receives every message before it is processed. It MUST NOT throw. */
export type WireWatcher = (direction: "in" | "out", message: AnyMessage) => unknown;

/** The limit of a line until the configuration is loaded. */
const DEFAULT_MAX_LINE_BYTES = 33_554_432;
/** How long open requests may take to finish after the client closes its end. */
const DRAIN_MS = 2_000;
/** Senders wait while this many bytes are buffered for the client. */
const SEND_PAUSE_BYTES = 1_048_576;
/** Above this, reading pauses too: a client that sends without reading would fill the memory with responses. */
const READ_PAUSE_BYTES = 8_388_608;
/** The limit of requests without a response. */
const MAX_OPEN_REQUESTS = 1_024;
/** `initialize` and `session/new`, each with its response. */
const FIRST_MESSAGES = 4;
const OVERLOADED = -32_603;

/**
 * Replaces the SDK's stream, which closes at an overlong line and at the end of the input, and then loses pending
 * responses.
 */
export class Wire {
  readonly stream: Stream;
  readonly #options: WireOptions;
  readonly #lines = new Lines(DEFAULT_MAX_LINE_BYTES);
  #maxLineBytes = DEFAULT_MAX_LINE_BYTES;
  readonly #watchers = new Set<WireWatcher>();
  /** The first messages: they pass before the configuration says whether to trace them. */
  #first: Parameters<WireWatcher>[] = [];
  /** The number of open requests per id: a client may reuse an id. */
  readonly #open = new Map<RequestId, number>();
  readonly #hooks = new Map<RequestId, (() => void)[]>();
  #isEnded = false;
  /** Ends the wait for the next input. */
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

  /** Runs `after` once the response to a request is written; never if the connection ends first. */
  afterAnswer(id: RequestId, after: () => void): void {
    this.#hooks.set(id, [...(this.#hooks.get(id) ?? []), after]);
  }

  /** Sets the limit of a line in bytes. */
  limit(maxLineBytes: number): void {
    this.#maxLineBytes = maxLineBytes;
    this.#lines.limit(maxLineBytes);
  }

  /** Adds a watcher. Returns the function that removes it. */
  watch(watcher: WireWatcher): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Returns the first messages of the connection, for a watcher that is added later. Works once. */
  takeFirst(): readonly Parameters<WireWatcher>[] {
    return this.#first.splice(0);
  }

  /** Stops reading, as if the client closed its end. The stream closes when open requests are answered. */
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

  /** Resolves to undefined if the connection ends or the input fails first. Promise.race would retain every chunk. */
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
      const text = `Too many open requests: the limit is ${MAX_OPEN_REQUESTS}. Send this request again after another one is answered.`;
      this.#write(failure(message.id, OVERLOADED, text, { kind: "overloaded", retryable: true }));
      return undefined;
    }
    this.#open.set(message.id, (this.#open.get(message.id) ?? 0) + 1);
    return completed(message);
  }

  async #send(message: AnyMessage): Promise<void> {
    this.#write("error" in message ? explainInvalidParams(message) : message);
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
    // Flush now: a hook may block the event loop for long, for example when it loads modules.
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

  /** Resolves when fewer than `bytes` are buffered, or the output is broken. */
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

/** A parsed line: a message, or the error response that the client gets instead. */
type ReadLine = { readonly message: AnyMessage } | { readonly answer: AnyMessage };

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

/** Parses a line. Returns undefined for a blank one. `maxBytes` is the limit that errors name. */
export function readLine(line: Line, maxBytes: number): ReadLine | undefined {
  if (!("text" in line)) {
    if (line.problem === "long") return tooLong(line.head, maxBytes);
    return { answer: failure(null, PARSE_ERROR, "The line is not valid UTF-8.") };
  }
  if (/^\s*$/.test(line.text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(line.text);
  } catch {
    return { answer: failure(null, PARSE_ERROR, "The line is not valid JSON.") };
  }
  const problem = findProblem(value);
  if (problem !== undefined) return { answer: failure(null, INVALID_REQUEST, problem) };
  return { message: value as AnyMessage };
}

/** Returns the message as one line. Escapes U+2028 and U+2029, which some readers treat as line ends. */
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

/** Returns what is wrong with a message that the SDK would otherwise echo back in full. */
function findProblem(value: unknown): string | undefined {
  if (Array.isArray(value)) return "Batches are not supported. Send one message per line.";
  if (!isRecord(value)) return "A message must be a JSON object.";
  const { jsonrpc, id, method } = value;
  const isCall = typeof method === "string";
  if (!isCall && !("method" in value) && ("result" in value || "error" in value)) return undefined;
  if (jsonrpc !== "2.0") return 'A message must have "jsonrpc": "2.0".';
  if (!isCall) return "A message must have a method, a result or an error.";
  return "id" in value && !isId(id) ? "An id must be a string, a number or null." : undefined;
}

/**
 * Completes what the SDK's validation rejects although its meaning is clear: a protocol version as text, and a fork
 * without a folder, whose handler takes that of the forked session.
 */
function completed(message: AnyMessage): AnyMessage {
  const { method, params } = message as { readonly method?: string; readonly params?: unknown };
  if (!isRecord(params)) return message;
  const { protocolVersion: version } = params;
  if (method === "initialize" && typeof version === "string" && /^\d{1,4}$/.test(version)) {
    return { ...message, params: { ...params, protocolVersion: Number(version) } } as AnyMessage;
  }
  if (method === "session/fork" && params["cwd"] == null) {
    return { ...message, params: { ...params, cwd: "" } } as AnyMessage;
  }
  return message;
}

function isId(id: unknown): id is string | number | null {
  return id === null || typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}

/**
 * Returns an error for the side that waits for this line: the client if the line starts like a request, otherwise our
 * own side.
 */
function tooLong(head: string, maxBytes: number): ReadLine {
  const message = `The message exceeds ${maxBytes} bytes, the limit of acp.max_line_bytes.`;
  const own = /^\s*\{[^{[]*/.exec(head)?.[0] ?? "";
  const id = /"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.)*")\s*[,}]/.exec(own)?.[1];
  const kind = /"(method|result|error)"\s*:/.exec(own)?.[1];
  if (id === undefined || kind === undefined) return { answer: failure(null, INVALID_REQUEST, message) };
  const error = failure(JSON.parse(id) as string | number, INVALID_REQUEST, message);
  return kind === "method" ? { answer: error } : { message: error };
}
