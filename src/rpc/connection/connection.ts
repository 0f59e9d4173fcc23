/** One connection: its calls, its events, its questions, and its end. */
import {
  type GatewayEvent,
  type HostMethod,
  type HostRequests,
  type GatewayEvents,
  hostRequests,
} from "../../../generated/gateway/host.gen.ts";
import { createId } from "../../base/text.ts";
import type { Log } from "../../base/observe.ts";
import { Calls, rpcSchemas, INVALID_REQUEST, PARSE_ERROR, type HostError, type RpcId } from "./calls.ts";
import type {
  RpcHandlers,
  RpcContext,
  RpcDeps,
  ClientProfile,
  HostAnswer,
  RpcIdentity,
  RpcPeer,
  Subscriptions,
} from "../deps.ts";
import { isDelta, Outbox, type Wire } from "./outbox.ts";
import { isOpenTo, readyEvent } from "./ready.ts";
import type { Clock } from "../../base/time.ts";
import { formatIssue } from "../../base/schema.ts";

/** A transport: sends frames, and closes. */
export interface ConnectionWire extends Wire {
  close(code: number, reason: string): void;
}

export interface ConnectionOptions {
  readonly deps: RpcDeps;
  readonly handlers: RpcHandlers<RpcContext>;
  readonly wire: ConnectionWire;
  readonly identity: RpcIdentity;
  readonly transport: RpcPeer["transport"];
  readonly isLocal: boolean;
  /** Folder in which the host was started, if it is known. */
  readonly cwd?: string;
  /** The connection's id, when its first frame was sent before the modules were ready. */
  readonly greeted?: string;
  /** Called when the connection ends. */
  readonly onEnd?: (connection: Connection) => void;
}

/** WebSocket close codes (RFC 6455, section 7.4) that this server sends. */
export const CLOSE = { shutdown: 1001, tooBig: 1009, failed: 1011, overloaded: 1013, unauthorized: 4401 };

const DEFAULT_PROFILE: ClientProfile = { serverRequests: false, optOut: new Set(), deltas: "all" };

export class Connection implements RpcPeer {
  readonly id: string;
  readonly identity: RpcIdentity;
  readonly transport: RpcPeer["transport"];
  readonly isLocal: boolean;
  readonly cwd: string | undefined;
  profile: ClientProfile = DEFAULT_PROFILE;
  readonly #options: ConnectionOptions;
  readonly #log: Log;
  readonly #outbox: Outbox;
  readonly #debouncer: EventDebouncer;
  readonly #calls: Calls;
  readonly #questions: Questions;
  readonly #subscriptions: Subscriptions;
  readonly #end = new AbortController();

  constructor(options: ConnectionOptions) {
    const { deps, wire, identity, transport, isLocal } = options;
    const { max_outbox_frames: maxFrames, max_outbox_bytes: maxBytes } = deps.settings.limits;
    this.#options = options;
    this.id = options.greeted ?? createId("con");
    this.identity = identity;
    this.transport = transport;
    this.isLocal = isLocal;
    this.cwd = options.cwd;
    this.#log = deps.log.with({ connection: this.id });
    const onOverflow = () => this.#overflow();
    // A pipe is never cut: its writers wait.
    const shared = transport === "stdio" ? {} : { readers: deps.store.readers };
    this.#outbox = new Outbox({ wire, clock: deps.clock, maxFrames, maxBytes, onOverflow, ...shared });
    this.#debouncer = new EventDebouncer(deps.clock, (hint) => this.#outbox.event(hint));
    const ask = (frame: object, sessionId: string) => this.#outbox.control(JSON.stringify(frame), sessionId);
    this.#questions = new Questions(ask, this.#log);
    this.#calls = new Calls({
      handlers: options.handlers,
      context: { deps, peer: this },
      outbox: this.#outbox,
      log: this.#log,
      onAnswer: ({ id, result, error }) => this.#questions.answer(id, result, error),
    });
    this.#subscriptions = deps.subscribe(deps, this);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get sessions(): ReadonlySet<string> {
    return this.#subscriptions.sessions;
  }

  readonly attach: Subscriptions["attach"] = (sessionId, options) =>
    this.#subscriptions.attach(sessionId, options);
  readonly detach: Subscriptions["detach"] = (sessionId) => this.#subscriptions.detach(sessionId);
  readonly showOpen: Subscriptions["showOpen"] = (sessionId, options) =>
    this.#subscriptions.showOpen(sessionId, options);
  readonly caughtUp: Subscriptions["caughtUp"] = () => this.#subscriptions.caughtUp();

  /** Sends the first frame, unless the host already has it. */
  open(): void {
    const { deps, greeted } = this.#options;
    if (greeted !== undefined) return;
    const { limits } = deps.settings;
    const { id: connectionId, transport, isLocal } = this;
    const { version, store, clock } = deps;
    const shellExec = isOpenTo(deps.settings.shellExec, { isLocal });
    const greeting = { version, epoch: store.epoch, limits, shellExec, nowMs: clock.now() };
    this.event(readyEvent({ ...greeting, connectionId, transport }));
  }

  introduce(profile: ClientProfile): void {
    this.profile = profile;
  }

  event(event: GatewayEvent): void {
    if (this.signal.aborted || this.profile.optOut.has(event.type)) return;
    if (this.profile.deltas === "final" && isDelta(event)) return;
    if (event.type === "sessions.changed") this.#debouncer.event(event);
    else this.#outbox.event(event);
  }

  /** False: read no further calls before {@link drained}. */
  get canTake(): boolean {
    return !this.#outbox.isHalfFull;
  }

  drained(): Promise<void> {
    return this.#outbox.drained();
  }

  ask<K extends HostMethod>(
    method: K,
    id: string,
    params: HostRequests[K]["params"],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<HostAnswer<K>> {
    if (this.signal.aborted) return Promise.resolve({ status: "gone" });
    return this.#questions.ask(method, id, params, signal);
  }

  /** Handles a frame. `sizeBytes` is its length if the transport knows it. Blank frames are ignored. */
  receive(text: string, sizeBytes = text.length): void {
    if (this.signal.aborted) return;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      if (text.trim() !== "") this.garbled("This is not JSON. Send one JSON value per frame.");
      return;
    }
    this.#calls.take(value, sizeBytes);
  }

  /** Answers a frame that cannot be parsed. */
  garbled(message: string): void {
    this.#calls.refuse(PARSE_ERROR, "parse_error", message);
  }

  /** Rejects input that is not a frame, such as a line above the limit. */
  refuse(message: string, reason: string): void {
    this.#calls.refuse(INVALID_REQUEST, reason, message);
  }

  /** Resolves when no call is in flight. */
  settled(): Promise<void> {
    return this.#calls.settled();
  }

  /** Sends more when the transport has drained. */
  pump(): void {
    this.#outbox.pump();
  }

  /** Ends the connection from this side. Waiting frames are sent first. */
  close(code: number, reason: string): void {
    if (this.signal.aborted) return;
    this.#outbox.flush();
    this.#stop();
    this.#options.wire.close(code, reason);
  }

  /** Ends the connection when the other side is gone. */
  gone(): void {
    if (!this.signal.aborted) this.#stop();
  }

  #stop(): void {
    this.#debouncer.close();
    this.#outbox.close();
    this.#end.abort();
    this.#subscriptions.close();
    this.#questions.close();
    this.#options.onEnd?.(this);
  }

  #overflow(): void {
    // A pipe has one reader, which must get everything; writers wait for drained().
    if (this.transport === "stdio" || this.signal.aborted) return;
    this.#log.warn("closed the connection of a client that does not read; it can resume by its cursor");
    this.#stop();
    this.#options.wire.close(CLOSE.overloaded, "overloaded");
  }
}

type ReloadEvent = GatewayEvents["sessions.changed"];

/** Longer than a burst of sessions that start or end together, shorter than a user waits for a list. */
const EVERY_MS = 100;

/** Debounces events that only say "reload": the first is sent at once, those that follow closely become one. */
class EventDebouncer {
  readonly #clock: Clock;
  readonly #send: (hint: ReloadEvent) => void;
  #last: ReloadEvent | undefined;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, send: (hint: ReloadEvent) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  event(hint: ReloadEvent): void {
    if (this.#cancel) this.#last = hint;
    else this.#now(hint);
  }

  close(): void {
    this.#cancel?.();
  }

  #now(hint: ReloadEvent): void {
    this.#send(hint);
    this.#cancel = this.#clock.after(EVERY_MS, () => {
      const last = this.#last;
      this.#last = undefined;
      this.#cancel = undefined;
      if (last) this.#now(last);
    });
  }
}

interface Pending {
  readonly method: HostMethod;
  readonly settle: (answer: HostAnswer<HostMethod>) => void;
}

class Questions {
  readonly #send: (frame: object, sessionId: string) => void;
  readonly #log: Log;
  readonly #pending = new Map<string, Pending>();

  constructor(send: (frame: object, sessionId: string) => void, log: Log) {
    this.#send = send;
    this.#log = log;
  }

  /** See RpcPeer. A question that is asked again replaces the pending one. */
  ask<K extends HostMethod>(
    method: K,
    id: string,
    params: HostRequests[K]["params"],
    signal: AbortSignal | undefined,
  ): Promise<HostAnswer<K>> {
    return new Promise((resolve) => {
      const gone = () => settle({ status: "gone" });
      const settle = (answer: HostAnswer<HostMethod>) => {
        this.#pending.delete(id);
        signal?.removeEventListener("abort", gone);
        resolve(answer as HostAnswer<K>);
      };
      if (signal?.aborted) return resolve({ status: "gone" });
      this.#pending.get(id)?.settle({ status: "gone" });
      this.#pending.set(id, { method, settle });
      signal?.addEventListener("abort", gone, { once: true });
      this.#send({ jsonrpc: "2.0", id, method, params }, params.session_id);
    });
  }

  /** Handles the host's answer. An answer without a pending question is dropped: the question closed meanwhile. */
  answer(id: RpcId, result: unknown, error: HostError | undefined): void {
    const pending = typeof id === "string" ? this.#pending.get(id) : undefined;
    if (!pending) return this.#log.debug("dropped an answer without an open question", { id });
    const { method, settle } = pending;
    if (error) {
      this.#log.debug("the host declined a question", { id, method, code: error.code });
      return settle({ status: "declined" });
    }
    const [issue] = rpcSchemas.check(hostRequests[method].result, result) ?? [];
    if (issue) {
      // The answer is not logged: it may be a password.
      this.#log.warn("the host's answer does not match its question", { id, method });
      return settle({ status: "invalid", issue: formatIssue(issue, "result") });
    }
    settle({ status: "answered", result: result as HostRequests[HostMethod]["result"] });
  }

  /** Ends all pending questions. */
  close(): void {
    for (const { settle } of this.#pending.values()) settle({ status: "gone" });
  }
}
