/** The client itself: one connection after the other, and what outlives them. */
import type { GatewayEvent } from "../../generated/gateway/host.gen.ts";
import type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
import type {
  ClientCapabilitiesParams,
  Cursor,
  GatewayReadyPayload,
  LiveSession,
} from "../../generated/gateway/types/types.gen.ts";
import { Calls, type PendingCall } from "./gateway-calls.ts";
import { GatewayConnection, type Answer } from "./gateway-connection.ts";
import { GatewayClosedError, GatewayError } from "./gateway-error.ts";
import { EventQueue } from "./gateway-queue.ts";
import { QuestionDesk, type AskedQuestion } from "./gateway-questions.ts";
import { FollowedSessions } from "./gateway-sessions.ts";
import { TransportError } from "./gateway-transport.ts";
import type {
  CallArguments,
  CallOptions,
  EventsOptions,
  GatewayClient,
  GatewayClientEvent,
  GatewayClock,
  GatewayNotice,
  GatewayOptions,
  GatewayResult,
  GatewayState,
} from "./gateway-types.ts";

const MAX_EVENTS = 8_192;
const MAX_SIZE = 16 * 1_048_576;
const CLOSE_MS = 10_000;
/** Sessions that are attached to at once after a cut. */
const BATCH = 64;
const ASK_MS = 60_000;
/** Stands for the length of a frame. */
const NOTICE_SIZE = 256;
/** The code of an answer to a question that is open no more. */
const NOT_PENDING = 4009;

const systemClock: GatewayClock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

type Fields = Readonly<Record<string, unknown>>;
type WithoutTime<T> = T extends unknown ? Omit<T, "ts"> : never;

export class ReconnectingClient implements GatewayClient {
  readonly closed: Promise<Error | undefined>;
  readonly #options: GatewayOptions;
  readonly #clock: GatewayClock;
  readonly #calls: Calls;
  readonly #sessions = new FollowedSessions();
  readonly #desk: QuestionDesk;
  readonly #queues = new Map<EventQueue, string | undefined>();
  readonly #opened = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<Error | undefined>();
  #state: GatewayState = "reconnecting";
  #ready: GatewayReadyPayload | undefined;
  #connection: GatewayConnection | undefined;
  #attempt = 0;
  #wasOpen = false;
  #wake: (() => void) | undefined;

  constructor(options: GatewayOptions) {
    const { signal } = options;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#calls = new Calls(this.#clock);
    this.closed = this.#closed.promise;
    this.#desk = new QuestionDesk({
      questions: options.questions ?? {},
      answer: (...answer) => this.#answerQuestion(...answer),
      onThrown: (question, error) => this.#questionFailed(question, error),
    });
    this.opened.catch(() => {});
    signal?.addEventListener("abort", () => void this.close(), { once: true });
    if (signal?.aborted) this.#shut();
    else void this.#run();
  }

  /** Resolves when the first connection is ready; rejects with what hindered it. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  get ready(): GatewayReadyPayload {
    if (!this.#ready) throw new GatewayClosedError("The client was never connected.");
    return this.#ready;
  }

  get state(): GatewayState {
    return this.#state;
  }

  call<K extends GatewayMethod>(method: K, ...args: CallArguments<K>): Promise<GatewayResult<K>> {
    const [params = {}, options] = args as [Fields?, CallOptions?];
    return this.#call(method, params, options) as Promise<GatewayResult<K>>;
  }

  events({ sessionId, signal }: EventsOptions = {}): EventQueue {
    const onAbort = () => void queue.return();
    const queue: EventQueue = new EventQueue({
      maxEvents: MAX_EVENTS,
      maxSize: MAX_SIZE,
      onEnd: () => {
        this.#queues.delete(queue);
        signal?.removeEventListener("abort", onAbort);
      },
    });
    this.#queues.set(queue, sessionId);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    if (this.state === "closed") queue.end();
    return queue;
  }

  cursor(sessionId: string): Cursor | undefined {
    return this.#sessions.cursor(sessionId);
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#shut();
    if (!connection || connection.isCut) return;
    const cancel = this.#clock.after(CLOSE_MS, () => connection.end("It did not end."));
    connection.close();
    await connection.cut;
    cancel();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run(): Promise<void> {
    const { reconnect = {} } = this.#options;
    const { minMs = 1_000, maxMs = 30_000, attempts = 20, first = false } = reconnect || {};
    for (;;) {
      const error = await this.#serve(minMs);
      if (this.state === "closed") return;
      const isFirst = !this.#wasOpen && !first;
      if (isLasting(error) || reconnect === false || isFirst || this.#attempt > attempts) {
        return this.#shut(error);
      }
      this.#become("reconnecting", error.message);
      // Clients that were cut together do not come back together.
      const share = this.#attempt === 0 ? Math.random() / 4 : (1 + Math.random()) / 2;
      await this.#wait(share * Math.min(maxMs, minMs * 2 ** Math.max(0, this.#attempt - 1)));
    }
  }

  /** One connection, from its beginning to its end. Resolves to why it ended. */
  async #serve(minMs: number): Promise<Error> {
    const connection = new GatewayConnection(this.#options.transport, this.#clock, {
      event: (event, size) => this.#event(event, size),
      question: (question) => this.#desk.ask(question, connection),
      answer: (answer) => this.#answer(answer),
    });
    this.#connection = connection;
    void connection.cut.then((error) => this.#calls.cut(error));
    let sinceMs = Number.POSITIVE_INFINITY;
    let failure: Error | undefined;
    try {
      await connection.ready;
      await this.#introduce(connection);
      await this.#attachAgain(connection);
      sinceMs = this.#clock.now();
      this.#open(connection);
    } catch (error) {
      failure = error as Error;
      connection.end(failure.message);
    }
    const error = await connection.cut;
    // One that stood for a moment is as good as none: else a gateway that falls over each time is asked without a wait.
    const hasStood = this.#clock.now() - sinceMs >= minMs;
    this.#attempt = hasStood ? 0 : this.#attempt + 1;
    return failure instanceof GatewayError ? failure : error;
  }

  async #introduce(connection: GatewayConnection): Promise<void> {
    const { client, questions, deltas, optOut } = this.#options;
    if (!client && !questions && !deltas && !optOut) return;
    // Which question is open no more is said by an event.
    const unwanted = optOut?.filter((type) => !questions || type !== "request.cancel");
    const params: ClientCapabilitiesParams = {
      protocol_version: 1,
      ...(client ? { client } : {}),
      server_requests: questions !== undefined,
      events: { ...(deltas ? { deltas } : {}), ...(unwanted ? { opt_out: unwanted } : {}) },
    };
    await this.#ask("client.capabilities", params, connection);
  }

  /** Goes on with the sessions of the last connection where they stopped. */
  async #attachAgain(connection: GatewayConnection): Promise<void> {
    const { ids } = this.#sessions;
    for (let at = 0; at < ids.length; at += BATCH) {
      await Promise.all(ids.slice(at, at + BATCH).map((id) => this.#attach(id, connection)));
    }
  }

  async #attach(id: string, connection: GatewayConnection): Promise<void> {
    const open = new Set<string>();
    try {
      const result = await this.#ask("session.resume", this.#sessions.resumption(id), connection);
      for (const { id: request } of (result as unknown as LiveSession).open_requests) open.add(request);
    } catch (error) {
      // The session is gone; other failures are those of the connection.
      if (!(error instanceof GatewayError) || error.retryable) throw error;
      const { code, reason, message } = error;
      this.#sessions.forget(id);
      this.#tell({ type: "client.lost", session_id: id, payload: { code, reason, message } });
    }
    this.#desk.keepOnly(id, open, connection);
  }

  #open(connection: GatewayConnection): void {
    if (connection.isCut || this.state === "closed") return;
    this.#wasOpen = true;
    this.#become("open");
    this.#opened.resolve();
    for (const call of this.#calls.unsent()) send(call, connection);
  }

  /** A call of the client's own, while the connection is made. It ends with the connection. */
  #ask(method: GatewayMethod, params: Fields, connection: GatewayConnection): Promise<Fields> {
    const { call, answer } = this.#calls.add(method, params, { timeoutMs: ASK_MS, isOwn: true });
    send(call, connection);
    return answer;
  }

  async #call(method: GatewayMethod, params: Fields, options: CallOptions = {}): Promise<Fields> {
    if (this.state === "closed") throw new GatewayClosedError("The client is closed.");
    const { max_inflight_requests: maxCalls, max_frame_bytes: maxBytes } = this.ready.limits;
    if (this.#calls.size >= maxCalls) {
      throw refused(-32001, "overloaded", `${maxCalls} calls are in flight. Wait for some of their answers.`);
    }
    const asked = method === "prompt.submit" ? await this.#turn(params, options) : params;
    const { call, answer } = this.#calls.add(method, asked, options);
    // The gateway would close the connection, again each time that the call is repeated.
    if (bytesOf(call.frame) > maxBytes) {
      call.settle(refused(-32600, "frame_too_large", `A frame has at most ${maxBytes} bytes.`));
    } else if (this.state === "open" && this.#connection) {
      send(call, this.#connection);
    }
    return answer;
  }

  /** Makes a submit one that can be repeated, and of whose turn no event is missed: its place in the session is known. */
  async #turn(params: Fields, options: CallOptions): Promise<Fields> {
    const id = String(params["session_id"]);
    if (!this.#sessions.cursor(id)) {
      const attach = this.#call("session.activate", { session_id: id, omit_messages: true }, options);
      // The submit itself is told what is wrong with the session.
      await attach.catch((error: unknown) => {
        if (!(error instanceof GatewayError)) throw error;
      });
    }
    return { client_turn_id: randomName(), ...params };
  }

  /** Nothing may come between an answer and what it says of the frames behind it: all happens at once. */
  #answer(answer: Answer): void {
    const call = this.#calls.answer(answer);
    const { result } = answer;
    if (!call || !result) return;
    const { method, params } = call;
    const gap = this.#sessions.answered({ method, params, result, epoch: this.ready.replay_epoch });
    if (method !== "session.resume" && method !== "session.activate") return;
    const { session_id, open_requests: open } = result as unknown as LiveSession;
    if (call.isOwn && gap) this.#tell({ type: "client.gap", session_id, payload: gap });
    if (!this.#options.questions) return;
    for (const { id, method: kind, params: payload } of open) {
      this.#desk.ask({ id, method: kind, params: { session_id, payload } } as unknown as AskedQuestion);
    }
  }

  #event(event: GatewayEvent, size: number): void {
    if (event.type === "gateway.ready") this.#ready = event.payload;
    if (event.type === "request.cancel") this.#desk.withdraw(event.payload.id);
    if (this.#sessions.isNews(event)) this.#push(event, size);
  }

  #answerQuestion({ id, params }: AskedQuestion, result: object | undefined, connection?: object): void {
    const current = this.#connection;
    if (current && connection === current && !current.isCut) {
      const answer = result ? { result } : { error: { code: -32601, message: "This host declines." } };
      return current.send(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    }
    // Its connection is gone: the question is one of the store's now, and cannot be declined any more.
    if (!result) return;
    const done = this.#call("request.answer", { id, session_id: params.session_id, result });
    void done.then(
      () => this.#desk.withdraw(id),
      (error: unknown) => {
        // After a cut the question comes again, and the answer goes again.
        if (!(error instanceof GatewayError)) return;
        this.#desk.withdraw(id);
        if (error.code !== NOT_PENDING) this.#questionFailed({ id, params }, error);
      },
    );
  }

  #questionFailed({ id, params }: Pick<AskedQuestion, "id" | "params">, error: unknown): void {
    const payload = { request_id: id, error };
    this.#tell({ type: "client.question_failed", session_id: params.session_id, payload });
  }

  #become(state: GatewayState, message?: string): void {
    if (this.#state === state) return;
    this.#state = state;
    const payload = { state, attempt: this.#attempt, ...(message === undefined ? {} : { message }) };
    this.#tell({ type: "client.state", payload });
  }

  #tell(notice: WithoutTime<GatewayNotice>): void {
    this.#push({ ...notice, ts: Date.now() }, NOTICE_SIZE);
  }

  #push(event: GatewayClientEvent, size: number): void {
    const epoch = this.#ready?.replay_epoch ?? "";
    for (const [queue, sessionId] of this.#queues) {
      if (sessionId === undefined || !event.session_id || event.session_id === sessionId) {
        queue.push(event, size, epoch);
      }
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }

  #shut(error?: Error): void {
    if (this.state === "closed") return;
    this.#become("closed", error?.message);
    const closed = new GatewayClosedError(error?.message ?? "The client was closed.", { cause: error });
    this.#wake?.();
    this.#calls.close(closed);
    this.#desk.close();
    for (const queue of this.#queues.keys()) queue.end(error && closed);
    this.#opened.reject(error ?? closed);
    this.#closed.resolve(error && closed);
  }
}

function send(call: PendingCall, connection: GatewayConnection): void {
  call.isSent = true;
  connection.send(call.frame);
}

/** Trying again is of no use. */
function isLasting(error: Error): boolean {
  if (error instanceof TransportError) return error.isFinal;
  return error instanceof GatewayError && !error.retryable;
}

/** A call that is not sent, because the gateway would refuse it. */
function refused(code: number, reason: string, message: string): GatewayError {
  return new GatewayError({ code, message, data: { reason, retryable: code === -32001 } });
}

/** Of UTF-8; at most that many where the text is short enough in any case. */
function bytesOf(text: string): number {
  return text.length < 1_048_576 ? 3 * text.length : new TextEncoder().encode(text).length;
}

/** Pages that are not of a secure context have no `crypto.randomUUID`. */
function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
