import type {
  FeedFrame,
  LogEntry,
  RunEvent,
  CreateResponseRequest,
  ResponseStreamEvent,
} from "../../generated/http/client/types.gen.ts";
import {
  send,
  type ClientOptions,
  StreamCutError,
  post,
  stopRun,
  type StreamRequest,
  AgentApiError,
  type ResumeOptions,
} from "./request.ts";

/**
 * Yields the events of a run after `after` to its final one, over as many connections as needed, without loss or
 * repetition. Throws AgentApiError for a permanent error (an unknown run, expired events), StreamCutError when the
 * server stays unreachable, and the reason of `signal` when it is aborted.
 */
export async function* streamRunEvents(
  options: ClientOptions,
  runId: string,
  { after = 0, ...resume }: ResumeOptions & { readonly after?: number } = {},
): AsyncGenerator<RunEvent, void> {
  let last = after;
  async function* connect(): AsyncGenerator<RunEvent, boolean> {
    const headers: Record<string, string> = last > 0 ? { "last-event-id": String(last) } : {};
    const init = { headers, ...(resume.signal ? { signal: resume.signal } : {}) };
    const response = await send(options, `/v1/runs/${encodeURIComponent(runId)}/events`, init);
    for await (const { data } of readFrames(response)) {
      const event = JSON.parse(data) as RunEvent;
      last = event.seq;
      yield event;
      if (isFinal(event)) return true;
    }
    return false;
  }
  yield* resumed(connect, resume, runId);
}

/** What to follow of the feed of changes. */
export interface FeedRequest extends ResumeOptions {
  /** Only these types, such as `run.*`. */
  readonly types?: readonly string[];
  /** The last event or cursor that was received. Default: from now on. */
  readonly after?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Yields the frames of the feed of changes until `signal` is aborted, over as many connections as needed, without loss or
 * repetition. Throws as {@link streamRunEvents}: AgentApiError `events_expired` for a cursor that is too old.
 */
export async function* streamFeed(
  options: ClientOptions,
  { after, types = [], headers = {}, ...resume }: FeedRequest = {},
): AsyncGenerator<FeedFrame, void> {
  const query = types.length === 0 ? "" : `?types=${encodeURIComponent(types.join(","))}`;
  yield* followed<FeedFrame>(options, `/v1/events${query}`, { ...resume, after, headers });
}

/** Which lines of the log to follow. */
export interface LogRequest extends ResumeOptions {
  /** The least level. */
  readonly level?: LogEntry["level"];
  /** Id of the last line that was received. Default: from now on. */
  readonly after?: string;
}

/** Yields the lines of the log of a server as they are written. Errors as in {@link streamFeed}, after a restart too. */
export async function* streamLogs(
  options: ClientOptions,
  { after, level = "debug", ...resume }: LogRequest = {},
): AsyncGenerator<LogEntry, void> {
  yield* followed<LogEntry>(options, `/v1/logs?stream=true&level=${level}`, {
    ...resume,
    after,
    headers: {},
  });
}

/** Yields the data of a stream that has no end, after the event with this id. */
async function* followed<T>(
  options: ClientOptions,
  path: string,
  {
    after,
    headers,
    ...resume
  }: ResumeOptions & {
    readonly after: string | undefined;
    readonly headers: Readonly<Record<string, string>>;
  },
): AsyncGenerator<T, void> {
  let last = after;
  async function* connect(): AsyncGenerator<T, boolean> {
    const position: Record<string, string> = last === undefined ? {} : { "last-event-id": last };
    const init = {
      headers: { ...headers, accept: "text/event-stream", ...position },
      ...(resume.signal ? { signal: resume.signal } : {}),
    };
    for await (const { data, id } of readFrames(await send(options, path, init))) {
      last = id ?? last;
      yield JSON.parse(data) as T;
    }
    return false;
  }
  yield* resumed(connect, resume, undefined);
}

type FinalEvent = Extract<
  RunEvent,
  { event: "run.completed" | "run.failed" | "run.cancelled" | "run.interrupted" }
>;

const FINAL: ReadonlySet<string> = new Set<FinalEvent["event"]>([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
]);

/** Returns whether this is the last event of a run. */
export function isFinal(event: RunEvent): event is FinalEvent {
  return FINAL.has(event.event);
}

/**
 * Yields the events of a new response. The request is sent once: when its connection is cut, the rest is fetched with
 * `starting_after`, without loss or repetition. Leaving the loop, or aborting `signal`, stops the run unless it is in
 * the background. A response that is not stored, or ends with the connection, cannot be resumed: throws StreamCutError.
 */
export async function* streamResponse(
  options: ClientOptions,
  body: Omit<CreateResponseRequest, "stream">,
  request: StreamRequest = {},
): AsyncGenerator<ResponseStreamEvent, void> {
  const posted = await post(options, "/v1/responses", body, request);
  const isKept = body.store !== false && (posted.isDetached || body.background === true);
  let first: Response | undefined = posted.response;
  let id: string | undefined;
  let last: number | undefined;
  async function* connect(): AsyncGenerator<ResponseStreamEvent, boolean> {
    if (!first && (!isKept || id === undefined)) throw new StreamCutError(posted.runId);
    const response = first ?? (await reopen(options, id ?? "", last, request.signal));
    first = undefined;
    for await (const event of readEvents(response)) {
      if ("response" in event) id ??= event.response.id;
      last = event.sequence_number;
      yield event;
      if (isLast(event)) return true;
    }
    return false;
  }
  let isOver = false;
  try {
    yield* resumed(connect, request, posted.runId);
    isOver = true;
  } catch (error) {
    isOver = !(request.signal?.aborted ?? false);
    throw error;
  } finally {
    if (!isOver && posted.isDetached && body.background !== true) stopRun(options, posted.runId);
  }
}

/** Yields the events of a stored response after `after`, and resumes when cut. Errors as in {@link streamRunEvents}. */
export async function* followResponse(
  options: ClientOptions,
  id: string,
  { after, ...resume }: ResumeOptions & { readonly after?: number } = {},
): AsyncGenerator<ResponseStreamEvent, void> {
  let last = after;
  async function* connect(): AsyncGenerator<ResponseStreamEvent, boolean> {
    for await (const event of readEvents(await reopen(options, id, last, resume.signal))) {
      last = event.sequence_number;
      yield event;
      if (isLast(event)) return true;
    }
    return false;
  }
  yield* resumed(connect, resume, undefined);
}

function reopen(
  options: ClientOptions,
  id: string,
  after: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const query = after === undefined ? "" : `&starting_after=${after}`;
  const path = `/v1/responses/${encodeURIComponent(id)}?stream=true${query}`;
  return send(options, path, signal ? { signal } : {});
}

async function* readEvents(response: Response): AsyncGenerator<ResponseStreamEvent> {
  for await (const { data } of readFrames(response)) {
    if (data === "[DONE]") return;
    yield JSON.parse(data) as ResponseStreamEvent;
  }
}

/** Returns whether this is the last event of a response. */
function isLast({ type }: ResponseStreamEvent): boolean {
  return type === "response.completed" || type === "response.incomplete" || type === "response.failed";
}

const MAX_ATTEMPTS = 10;
const BASE_MS = 50;
const MAX_WAIT_MS = 10_000;

/**
 * Continues a stream over as many connections as needed. `connect` opens the next one where the last one stopped, and
 * returns true once the stream is over. Throws permanent server errors (4xx except 408 and 429) at once. Retries
 * connections without an event with growing delays, then throws StreamCutError.
 */
async function* resumed<T>(
  connect: () => AsyncGenerator<T, boolean>,
  { signal, maxAttempts = MAX_ATTEMPTS }: ResumeOptions,
  runId: string | undefined,
): AsyncGenerator<T, void> {
  let failures = 0;
  for (;;) {
    let failure: unknown;
    try {
      const connection = connect();
      for (;;) {
        const next = await connection.next();
        if (next.done && next.value) return;
        if (next.done) break;
        failures = 0;
        let isTaken = false;
        try {
          yield next.value;
          isTaken = true;
        } finally {
          if (!isTaken) await connection.return(true);
        }
      }
    } catch (error) {
      if (isLasting(error) || signal?.aborted) throw error;
      failure = error;
    }
    failures += 1;
    if (failures > maxAttempts) throw new StreamCutError(runId, failure);
    await wait(waitMs(failures, failure), signal);
  }
}

function isLasting(error: unknown): boolean {
  if (error instanceof StreamCutError) return true;
  if (!(error instanceof AgentApiError)) return false;
  const { status } = error;
  return status < 500 && status !== 408 && status !== 429;
}

/**
 * Returns the server's `Retry-After`, else a doubling delay with jitter, so that clients do not reconnect all at once.
 */
function waitMs(failures: number, failure: unknown): number {
  if (failure instanceof AgentApiError && failure.retryAfterSeconds !== undefined) {
    return Math.min(failure.retryAfterSeconds * 1000, MAX_WAIT_MS);
  }
  return Math.min(BASE_MS * 2 ** (failures - 1), MAX_WAIT_MS) * (0.5 + Math.random() / 2);
}

function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** One server-sent event: its data as text, and its id when it has one. */
interface StreamFrame {
  readonly data: string;
  readonly id: string | undefined;
}

/** Most characters of one frame; a longer one does not come from the server. */
const MAX_FRAME_CHARACTERS = 64_000_000;

/**
 * Yields the server-sent events of a response (WHATWG HTML, 9.2.6) without comments. Leaving the loop closes the
 * connection.
 */
export async function* readFrames(response: Response): AsyncGenerator<StreamFrame> {
  if (!response.body) return;
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const bytes of response.body) {
    buffer += decoder.decode(bytes, { stream: true });
    for (;;) {
      const end = /\r?\n\r?\n|\r\r/.exec(buffer);
      if (!end) break;
      const frame = parseFrame(buffer.slice(0, end.index));
      buffer = buffer.slice(end.index + end[0].length);
      if (frame) yield frame;
    }
    if (buffer.length > MAX_FRAME_CHARACTERS) throw new Error("A frame of the stream is too long.");
  }
}

function parseFrame(text: string): StreamFrame | undefined {
  let id: string | undefined;
  const data: string[] = [];
  for (const line of text.split(/\r\n|\r|\n/)) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    if (field === "id") id = value;
  }
  return data.length === 0 ? undefined : { data: data.join("\n"), id };
}
