/** One connection: frames in, checked calls, bounded frames out. */
import type { GatewayEvent, HostMethod, HostRequests } from "../../generated/gateway/host.gen.ts";
import type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
import { ServiceError, toServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import type { RpcCall, RpcHandlers } from "./contract.ts";
import { checkCall, runHandler } from "./dispatch.ts";
import {
  errorFrame,
  INVALID_REQUEST,
  PARSE_ERROR,
  protocolError,
  readInbound,
  resultFrame,
  type ErrorFrame,
  type Inbound,
  type ResultFrame,
} from "./frame.ts";
import { isDelta } from "./delta.ts";
import { Outbox, type Wire } from "./outbox.ts";
import type { ClientProfile, HostAnswer, RpcIdentity, RpcPeer, Subscriptions } from "./peer.ts";
import { Questions } from "./questions.ts";
import { readyEvent } from "./ready.ts";
import type { RpcContext, RpcRoom } from "./room.ts";

/** A transport's two ends: how frames leave, and how it ends. */
export interface ConnectionWire extends Wire {
  close(code: number, reason: string): void;
}

export interface ConnectionOptions {
  readonly room: RpcRoom;
  readonly handlers: RpcHandlers<RpcContext>;
  readonly wire: ConnectionWire;
  readonly identity: RpcIdentity;
  readonly transport: RpcPeer["transport"];
  readonly isLocal: boolean;
  /** It ended, for whatever reason. */
  readonly onEnd?: (connection: Connection) => void;
}

/** Codes of WebSocket (RFC 6455, section 7.4) that we close with. */
export const CLOSE = { shutdown: 1001, tooBig: 1009, failed: 1011, overloaded: 1013 };

const DEFAULT_PROFILE: ClientProfile = { serverRequests: false, optOut: new Set(), deltas: "all" };

type Reply = ResultFrame | ErrorFrame;
type Call = Extract<Inbound, { readonly kind: "request" | "notification" }>;

export class Connection implements RpcPeer {
  readonly id: string = createId("con");
  readonly identity: RpcIdentity;
  readonly transport: RpcPeer["transport"];
  readonly isLocal: boolean;
  profile: ClientProfile = DEFAULT_PROFILE;
  readonly #options: ConnectionOptions;
  readonly #context: RpcContext;
  readonly #log: Log;
  readonly #outbox: Outbox;
  readonly #questions: Questions;
  readonly #subscriptions: Subscriptions;
  readonly #end = new AbortController();
  #inFlight = 0;
  #settled: PromiseWithResolvers<void> | undefined;

  constructor(options: ConnectionOptions) {
    const { room, wire, identity, transport, isLocal } = options;
    const { max_outbox_frames: maxFrames, max_outbox_bytes: maxBytes } = room.settings.limits;
    this.#options = options;
    this.identity = identity;
    this.transport = transport;
    this.isLocal = isLocal;
    this.#log = room.log.with({ connection: this.id });
    this.#context = { room, peer: this };
    const onOverflow = () => this.#overflow();
    this.#outbox = new Outbox({ wire, clock: room.clock, maxFrames, maxBytes, onOverflow });
    this.#questions = new Questions((frame) => this.#outbox.control(JSON.stringify(frame)), this.#log);
    this.#subscriptions = room.subscribe(room, this);
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

  /** Sends the first frame. */
  open(): void {
    this.event(readyEvent(this.#context.room, this));
  }

  introduce(profile: ClientProfile): void {
    this.profile = profile;
  }

  event(event: GatewayEvent): void {
    if (this.signal.aborted || this.profile.optOut.has(event.type)) return;
    if (this.profile.deltas === "final" && isDelta(event)) return;
    this.#outbox.event(event);
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

  /** Takes a frame. `sizeBytes` is its length, where the transport knows it; blank frames are nothing. */
  receive(text: string, sizeBytes = text.length): void {
    if (this.signal.aborted) return;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      if (text.trim() !== "") this.garbled("This is not JSON. Send one JSON value a frame.");
      return;
    }
    if (Array.isArray(value)) return this.#batch(value, sizeBytes);
    const pending = this.#take(readInbound(value), sizeBytes);
    if (!pending) return;
    if (pending instanceof Promise) void this.#finishLater(pending);
    else this.#finish(pending);
  }

  /** Answers what cannot be read. */
  garbled(message: string): void {
    this.#reply(protocolError(null, { code: PARSE_ERROR, reason: "parse_error", message }));
  }

  /** Refuses what is no frame at all, such as a line above the limit. */
  refuse(message: string, reason: string): void {
    this.#reply(protocolError(null, { code: INVALID_REQUEST, reason, message }));
  }

  /** Resolves when no call is in flight. */
  settled(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve();
    this.#settled ??= Promise.withResolvers<void>();
    return this.#settled.promise;
  }

  /** The transport takes more again. */
  pump(): void {
    this.#outbox.pump();
  }

  /** Ends the connection from our side; what waits is sent first. */
  close(code: number, reason: string): void {
    if (this.signal.aborted) return;
    this.#outbox.flush();
    this.#stop();
    this.#options.wire.close(code, reason);
  }

  /** The other side is gone. */
  gone(): void {
    if (!this.signal.aborted) this.#stop();
  }

  #stop(): void {
    this.#outbox.close();
    this.#end.abort();
    this.#subscriptions.close();
    this.#questions.close();
    this.#options.onEnd?.(this);
  }

  #overflow(): void {
    // A pipe has one reader who must get everything; those who fill it wait for drained().
    if (this.transport === "stdio" || this.signal.aborted) return;
    this.#log.warn("a client does not read: its connection is closed, it may resume by its cursor");
    this.#stop();
    this.#options.wire.close(CLOSE.overloaded, "overloaded");
  }

  #batch(members: readonly unknown[], sizeBytes: number): void {
    const { max_batch: max } = this.#options.room.settings.limits;
    if (members.length === 0) return this.refuse("A batch must not be empty.", "invalid_request");
    if (members.length > max) {
      return this.refuse(`A batch has at most ${max} members, not ${members.length}.`, "invalid_request");
    }
    const pending = members.map((member) => this.#take(readInbound(member), sizeBytes));
    void Promise.all(pending).then((done) => {
      const replies = done.flatMap((each) => (each?.reply ? [each.reply] : []));
      if (replies.length > 0) this.#reply(replies);
      for (const each of done) each?.release();
    });
  }

  /** Undefined when there is nothing to answer and nothing to wait for. */
  #take(inbound: Inbound, sizeBytes: number): Done | Promise<Done> | undefined {
    switch (inbound.kind) {
      case "answer":
        this.#questions.answer(inbound.id, inbound.result, inbound.error);
        return undefined;
      case "invalid": {
        const { id, message } = inbound;
        const reply = protocolError(id, { code: INVALID_REQUEST, reason: "invalid_request", message });
        return { reply, release: nothing };
      }
      default:
        return this.#call(inbound, sizeBytes);
    }
  }

  /** Calls that answer at once need no place among those in flight, and no promise. */
  #call(inbound: Call, sizeBytes: number): Done | Promise<Done> {
    const { handlers, room } = this.#options;
    const { method, params } = inbound;
    const held: string[] = [];
    const release = () => held.forEach((sessionId) => this.#outbox.release(sessionId));
    const finish = (reply: Reply): Done => ({
      reply: inbound.kind === "notification" ? undefined : reply,
      release,
    });
    const id = inbound.kind === "request" ? inbound.id : null;
    const failed = (thrown: unknown) => finish(this.#failure(id, method, thrown));
    const hold = (sessionId: string) => {
      held.push(sessionId);
      this.#outbox.hold(sessionId);
    };
    try {
      if (this.#inFlight >= room.settings.limits.max_inflight_requests) throw overloaded(this.#inFlight);
      const call = checkCall(method, params, { identity: this.identity, log: this.#log, sizeBytes });
      const more: Omit<RpcCall<GatewayMethod, RpcContext>, "params"> = {
        ctx: this.#context,
        signal: this.signal,
        hold,
      };
      const result = runHandler(handlers, call, more);
      if (!(result instanceof Promise)) return finish(resultFrame(id, result));
      this.#inFlight += 1;
      return result
        .then((value: unknown) => finish(resultFrame(id, value)), failed)
        .finally(() => this.#landed());
    } catch (thrown) {
      return failed(thrown);
    }
  }

  #landed(): void {
    this.#inFlight -= 1;
    if (this.#inFlight > 0) return;
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  #failure(id: Reply["id"], method: string, thrown: unknown): ErrorFrame {
    const error = toServiceError(thrown);
    if (error.row.http >= 500 && !error.row.retryable && !this.signal.aborted) {
      this.#log.error("a call failed", { method, error: error.cause ?? error });
    }
    return errorFrame(id, error);
  }

  async #finishLater(pending: Promise<Done>): Promise<void> {
    this.#finish(await pending);
  }

  #finish({ reply, release }: Done): void {
    if (reply) this.#reply(reply);
    release();
  }

  #reply(reply: Reply | readonly Reply[]): void {
    if (!this.signal.aborted) this.#outbox.control(JSON.stringify(reply));
  }
}

interface Done {
  readonly reply: Reply | undefined;
  /** Lets the events go that the call held back. */
  readonly release: () => void;
}

const nothing = () => {};

function overloaded(inFlight: number): ServiceError {
  return new ServiceError(
    "overloaded",
    `${inFlight} requests are in flight. Wait for some of their answers.`,
  );
}
