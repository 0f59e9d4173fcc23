/** The client: one connection after the other, and the state that outlives them. */
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { GatewayMethod } from "../../../generated/gateway/rpc.gen.ts";
import type { Cursor, GatewayReadyPayload, LiveSession } from "../../../generated/gateway/types/types.gen.ts";
import { whenAborted, Calls, type Answer, type Fields, type PendingCall } from "./calls.ts";
import { GatewayConnection, VERSION } from "./connection.ts";
import {
  GatewayClosedError,
  GatewayError,
  type CallArguments,
  type CallOptions,
  type EventsOptions,
  type GatewayClient,
  type GatewayClientEvent,
  type GatewayClock,
  type GatewayNotice,
  type GatewayOptions,
  type GatewayResult,
  type GatewayState,
} from "./types.ts";
import { createEventQueue, type EventQueue, FollowedSessions } from "./events.ts";
import { QuestionService, type ReceivedQuestion } from "./questions.ts";
import type { TransportError } from "./transport.ts";

const CLOSE_MS = 10_000;
/** The gateway allows 256 calls in flight. */
const ATTACH_AT_ONCE = 99;
/** Nominal frame length of a notice. */
const NOTICE_SIZE = 256;

const systemClock: GatewayClock = {
  now: Date.now,
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

type Notice = GatewayNotice extends infer N ? (N extends unknown ? Omit<N, "ts"> : never) : never;

export class ReconnectingClient implements GatewayClient {
  readonly #options: GatewayOptions;
  readonly #clock: GatewayClock;
  readonly #calls: Calls;
  readonly #sessions = new FollowedSessions();
  readonly #questions: QuestionService;
  readonly #queues = new Map<EventQueue, string | undefined>();
  /** Resolves when the first connection is ready; rejects with why it failed. */
  readonly opened = Promise.withResolvers<GatewayClient>();
  readonly #closed = Promise.withResolvers<Error | undefined>();
  readonly closed = this.#closed.promise;
  state: GatewayState = "reconnecting";
  ready!: GatewayReadyPayload;
  #connection!: GatewayConnection;
  /** Consecutive connections that failed. */
  #attempt = 0;
  #wasOpen = false;
  #cancelWait: (() => void) | undefined;

  constructor(options: GatewayOptions) {
    const { signal, clock = systemClock, questions = {} } = options;
    this.#options = options;
    this.#clock = clock;
    this.#calls = new Calls(clock);
    this.#questions = new QuestionService({
      questions,
      send: (...answer) => this.#sendAnswer(...answer),
      onThrown: ({ id: request_id, params: { session_id } }, error) => {
        this.#notify({ type: "client.question_failed", session_id, payload: { request_id, error } });
      },
    });
    void this.#run();
    void this.closed.then(whenAborted(signal, () => void this.close()));
  }

  call<K extends GatewayMethod>(method: K, ...args: CallArguments<K>): Promise<GatewayResult<K>> {
    const [params = {}, options = {}] = args as [Fields?, CallOptions?];
    return this.#call(method, params, options) as Promise<GatewayResult<K>>;
  }

  events({ sessionId, signal }: EventsOptions = {}): AsyncGenerator<GatewayClientEvent, void> {
    let forget = () => {};
    const queue = createEventQueue(() => {
      this.#queues.delete(queue);
      forget();
    });
    this.#queues.set(queue, sessionId);
    if (this.state === "closed") queue.end();
    forget = whenAborted(signal, () => queue.end());
    return queue.events;
  }

  cursor(sessionId: string): Cursor | undefined {
    return this.#sessions.get(sessionId);
  }

  async close(): Promise<void> {
    this.#shut();
    const connection = this.#connection;
    const cancel = this.#clock.after(CLOSE_MS, () => connection.end("no end"));
    connection.close();
    await connection.cut.promise;
    cancel();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Connects, and reconnects whenever the connection has ended. */
  async #run(): Promise<void> {
    const { reconnect = {} } = this.#options;
    const { minMs = 1_000, maxMs = 30_000, attempts = 20, first = false } = reconnect || {};
    const error = await this.#serve(minMs);
    if (this.state === "closed") return;
    const isLast = isLasting(error) || !reconnect || this.#attempt > attempts || !(this.#wasOpen || first);
    if (isLast) return this.#shut(error);
    this.#become("reconnecting", error);
    // Jitter: clients that were cut together do not reconnect together.
    const share = this.#attempt ? (1 + Math.random()) / 2 : Math.random() / 4;
    const waitMs = share * Math.min(maxMs, minMs * 2 ** Math.max(0, this.#attempt - 1));
    this.#cancelWait = this.#clock.after(waitMs, () => this.reconnectNow());
  }

  reconnectNow(): void {
    if (!this.#cancelWait || this.state === "closed") return;
    this.#cancelWait();
    this.#cancelWait = undefined;
    void this.#run();
  }

  /** Runs one connection. Resolves to why it ended. */
  async #serve(minMs: number): Promise<Error> {
    const connection = new GatewayConnection(this.#options.transport, this.#clock, {
      event: (event, size) => this.#event(event, size),
      question: (question) => void this.#questions.ask(question, connection),
      answer: (answer) => this.#answer(answer),
    });
    this.#connection = connection;
    void connection.cut.promise.then((error) => this.#calls.cut(error, false));
    let openedMs = Number.POSITIVE_INFINITY;
    let refusal: unknown;
    try {
      await connection.ready.promise;
      const { client, questions, deltas, optOut } = this.#options;
      await this.#callOwn("client.capabilities", {
        protocol_version: VERSION,
        client,
        server_requests: !!questions,
        events: { deltas, opt_out: optOut },
      });
      const ids = [...this.#sessions.keys()];
      while (ids[0]) await Promise.all(ids.splice(0, ATTACH_AT_ONCE).map((id) => this.#attachAgain(id)));
      openedMs = this.#clock.now();
      this.#open();
    } catch (error) {
      refusal = error;
      connection.end("refused");
    }
    const error = await connection.cut.promise;
    // A very short connection counts as failed; otherwise a crashing gateway would be contacted without a delay.
    this.#attempt = this.#clock.now() - openedMs < minMs || refusal ? this.#attempt + 1 : 0;
    return refusal instanceof GatewayError ? refusal : error;
  }

  /** Resumes a session of the last connection where it stopped. */
  async #attachAgain(id: string): Promise<void> {
    const open = new Set<string>();
    try {
      const result = await this.#callOwn("session.resume", this.#sessions.resumption(id));
      for (const { id: request } of (result as unknown as LiveSession).open_requests) open.add(request);
    } catch (error) {
      // The session does not exist any more; other failures are those of the connection.
      if (!isLasting(error)) throw error;
      const { code, reason, message } = error as GatewayError;
      this.#sessions.delete(id);
      this.#notify({ type: "client.lost", session_id: id, payload: { code, reason, message } });
    }
    this.#questions.keepOnly(id, open, this.#connection);
  }

  #open(): void {
    if (this.#connection.isCut || this.state === "closed") return;
    this.#wasOpen = true;
    this.#become("open");
    this.opened.resolve(this);
    for (const call of this.#calls.values()) if (!call.isSent) this.#send(call);
  }

  #send(call: PendingCall): void {
    call.isSent = true;
    this.#connection.send(call.frame);
  }

  /** Makes a call of the client itself during the connection setup. It ends with the connection. */
  #callOwn(method: GatewayMethod, params: object): Promise<Fields> {
    const call = this.#calls.add(method, params as Fields, { isOwn: true });
    this.#send(call);
    return call.answer;
  }

  async #call(method: GatewayMethod, params: Fields, options: CallOptions): Promise<Fields> {
    options.signal?.throwIfAborted();
    const isTurn = method === "prompt.submit";
    const id = params["session_id"] as string;
    if (isTurn && this.state !== "closed" && !this.cursor(id)) {
      // Attaches before the turn begins, so that no event of it is missed.
      const attach = this.#call("session.activate", { session_id: id, omit_messages: true }, options);
      await attach.catch((error: unknown) => {
        // A problem with the session becomes the response to the submit itself.
        if (!isLasting(error)) throw error;
      });
    }
    if (this.state === "closed") throw new GatewayClosedError();
    const call = this.#calls.add(
      method,
      isTurn ? { ...params, client_turn_id: params["client_turn_id"] ?? randomName() } : params,
      options,
    );
    const { max_frame_bytes: max } = this.ready.limits;
    if (call.frame.length > max / 3 && new Blob([call.frame]).size > max) {
      // The gateway would close the connection each time the call is repeated.
      const data = { reason: "frame_too_large" };
      call.settle(new GatewayError({ code: -32600, message: `The frame exceeds ${max} bytes.`, data }));
    } else if (this.state === "open" && !this.#connection.isCut) {
      this.#send(call);
    }
    return call.answer;
  }

  /** Handles a response synchronously: it determines how the following frames are read. */
  #answer(answer: Answer): void {
    const call = this.#calls.answer(answer);
    const { result } = answer;
    if (!call || !result) return;
    const { session_id, open_requests: open } = result as unknown as LiveSession;
    const gap = this.#sessions.answered(call, result, this.ready.replay_epoch);
    if (call.isOwn && gap) this.#notify({ type: "client.gap", session_id, payload: gap });
    if (!this.#options.questions || !/resume|activate/.test(call.method)) return;
    for (const { id, method, params: payload } of open) {
      void this.#questions.ask({
        id,
        method,
        params: { session_id, payload },
      } as unknown as ReceivedQuestion);
    }
  }

  #event(event: GatewayEvent, size: number): void {
    if (event.type === "gateway.ready") this.ready = event.payload;
    if (event.type === "request.cancel") this.#questions.withdraw(event.payload.id);
    if (this.#sessions.isNew(event)) this.#push(event, size);
  }

  #sendAnswer({ id, params }: ReceivedQuestion, result: object | undefined, on: object | undefined): void {
    if (on === this.#connection) {
      const answer = result ? { result } : { error: { code: -32601, message: "declined" } };
      return this.#connection.send(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    }
    // Its connection is gone: the question can be answered, but no longer declined.
    if (!result) return;
    const done = this.#call("request.answer", { id, session_id: params.session_id, result }, {});
    // Another client answered first; or the connection was cut, and the question is sent again.
    done.catch(() => {});
  }

  #become(state: GatewayState, error?: Error): void {
    this.state = state;
    this.#notify({
      type: "client.state",
      payload: { state, attempt: this.#attempt, message: error?.message },
    });
  }

  #notify(notice: Notice): void {
    this.#push({ ...notice, ts: Date.now() } as GatewayNotice, NOTICE_SIZE);
  }

  #push(event: GatewayClientEvent, size: number): void {
    for (const [queue, sessionId] of this.#queues) {
      if (!sessionId || !event.session_id || event.session_id === sessionId) {
        queue.push(event, size, this.ready?.replay_epoch);
      }
    }
  }

  #shut(error?: Error): void {
    if (this.state === "closed") return;
    this.#become("closed", error);
    this.#cancelWait?.();
    const closed = new GatewayClosedError(error);
    this.#calls.cut(closed, true);
    this.#questions.close();
    for (const queue of this.#queues.keys()) queue.end(error && closed);
    this.opened.reject(error ?? closed);
    this.#closed.resolve(error && closed);
  }
}

/** Returns whether an error is permanent, according to GatewayError and TransportError. */
function isLasting(error: unknown): boolean {
  return (error as TransportError).retryable === false;
}

/** Pages outside a secure context have no `crypto.randomUUID`. */
function randomName(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("");
}
