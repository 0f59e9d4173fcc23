/** The HTTP API and its feed of changes over a connection. */
import { ServiceError, toServiceError } from "../../base/errors.ts";
import type { FeedItem, RpcCaller, RpcContext, RpcGroup, RpcPeer } from "../deps.ts";

type Names = "api.call" | "events.subscribe" | "events.unsubscribe";

export const apiMethods: RpcGroup<Names, RpcContext> = {
  "api.call": ({ params, ctx: { deps, peer }, signal }) => deps.api.call(params, callerOf(peer), { signal }),

  "events.subscribe": async ({ params, ctx, hold }) => {
    const { deps, peer } = ctx;
    // Feed events belong to no session: they follow the answer.
    hold(NO_SESSION);
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, peer.signal]);
    const frames = (await deps.api.follow(params, callerOf(peer), signal))[Symbol.asyncIterator]();
    const { value: first } = await frames.next();
    if (first?.object !== "feed.ready") throw new ServiceError("internal_error", "The feed has no start.");
    subscriptions.get(peer)?.("replaced");
    const subscription = new FeedSubscription(ctx, first.cursor);
    subscriptions.set(peer, (reason) => {
      subscription.close(reason);
      stop.abort();
    });
    void subscription.send(frames);
    return { cursor: first.cursor, epoch: first.epoch };
  },

  "events.unsubscribe": ({ ctx: { peer } }) => {
    const end = subscriptions.get(peer);
    subscriptions.delete(peer);
    end?.("unsubscribed");
    return { unsubscribed: end !== undefined };
  },
};

const NO_SESSION = "";

/** What ends the subscription of a connection. */
const subscriptions = new WeakMap<RpcPeer, (reason: string) => void>();

function callerOf({ identity: { owner, key = owner, scopes } }: RpcPeer): RpcCaller {
  return { name: key, owner, scopes };
}

/** Sends the frames of the feed to one connection, as fast as it reads. */
class FeedSubscription {
  readonly #ctx: RpcContext;
  #cursor: string;
  #isClosed = false;

  constructor(ctx: RpcContext, cursor: string) {
    this.#ctx = ctx;
    this.#cursor = cursor;
  }

  async send(frames: AsyncIterator<FeedItem>): Promise<void> {
    const { peer } = this.#ctx;
    try {
      for (let next = await frames.next(); !next.done; next = await frames.next()) {
        await peer.drained();
        if (this.#isClosed) return;
        this.#pass(next.value);
      }
    } catch (thrown) {
      const { code, message } = toServiceError(thrown);
      this.close(code, message);
    }
  }

  /** Sends the last event of the subscription, once. */
  close(reason: string, message?: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const payload = { reason, cursor: this.#cursor, ...(message === undefined ? {} : { message }) };
    this.#ctx.peer.event({ type: "feed.closed", session_id: NO_SESSION, ts: this.#now(), payload });
  }

  #pass(frame: FeedItem): void {
    const { peer } = this.#ctx;
    const envelope = { session_id: NO_SESSION, ts: this.#now() };
    if (frame.object === "event") {
      this.#cursor = frame.id;
      peer.event({ type: "feed.event", ...envelope, payload: frame });
      return;
    }
    this.#cursor = frame.cursor;
    peer.event({ type: "feed.bookmark", ...envelope, payload: { cursor: frame.cursor } });
  }

  #now(): number {
    return this.#ctx.deps.clock.now();
  }
}
