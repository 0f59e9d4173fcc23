import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { Cursor } from "../../../generated/gateway/types/types.gen.ts";
import type { LiveSession } from "../../agent/session/live-sessions.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { askHost, questionMethodOf } from "./questions.ts";
import { EventProjector, replayFrom } from "./projector.ts";
import type { Attached, RpcPeer, Subscriptions } from "../connection/peer.ts";
import type { RpcDeps } from "../deps.ts";
import { sessionInfo } from "../session/session-view.ts";

/** The subscriptions of a connection: follows the journal of each session from a cursor. */
export class Notify implements Subscriptions {
  readonly #deps: RpcDeps;
  readonly #peer: RpcPeer;
  readonly #followed = new Map<string, Followed>();
  readonly #stopListening: () => void;
  #isClosed = false;

  constructor(deps: RpcDeps, peer: RpcPeer) {
    this.#deps = deps;
    this.#peer = peer;
    this.#stopListening = deps.agent.live.onReclaimed((live) => {
      if (live.owner === peer.identity.owner) peer.event(reclaimedEvent(live, deps.clock.now()));
    });
  }

  get sessions(): ReadonlySet<string> {
    return new Set(this.#followed.keys());
  }

  async attach(sessionId: string, options: { readonly cursor?: Cursor } = {}): Promise<Attached> {
    const { cursor } = options;
    const from = await replayFrom(this.#deps.store, sessionId, cursor);
    const attached: Attached = {
      latestSeq: from.latestSeq,
      replayed: cursor ? from.latestSeq - from.after : 0,
      truncated: from.truncated,
    };
    const known = this.#followed.get(sessionId);
    if (this.#isClosed || (known && !cursor)) return attached;
    if (!known) this.#count(sessionId, 1);
    const followed = new Followed(this.#deps, this.#peer, {
      sessionId,
      ...from,
      isReplay: cursor !== undefined,
      shown: known?.handOver() ?? new Map(),
    });
    this.#followed.set(sessionId, followed);
    void followed.run().catch((error: unknown) => this.#failed(followed, sessionId, error));
    return attached;
  }

  detach(sessionId: string): boolean {
    const followed = this.#followed.get(sessionId);
    if (!followed) return false;
    followed.end();
    this.#followed.delete(sessionId);
    this.#count(sessionId, -1);
    return true;
  }

  async caughtUp(): Promise<void> {
    await Promise.all([...this.#followed.values()].map((followed) => followed.caughtUp()));
  }

  close(): void {
    this.#isClosed = true;
    this.#stopListening();
    for (const sessionId of this.#followed.keys()) this.detach(sessionId);
  }

  #failed(followed: Followed, sessionId: string, error: unknown): void {
    if (this.#followed.get(sessionId) !== followed) return;
    this.detach(sessionId);
    this.#deps.log.error("a session can no longer be followed", { session: sessionId, error });
    const payload = {
      message: "The events of the session can no longer be read. Attach again.",
      fatal: false,
    };
    this.#peer.event({ type: "error", session_id: sessionId, ts: this.#deps.clock.now(), payload });
  }

  /** Counts viewers. A viewed session is not closed for being idle. */
  #count(sessionId: string, by: 1 | -1): void {
    const live = this.#deps.agent.live.find(sessionId, this.#peer.identity.owner);
    if (live) live.viewers = Math.max(0, live.viewers + by);
  }
}

interface From {
  readonly sessionId: string;
  readonly after: number;
  readonly latestSeq: number;
  readonly isReplay: boolean;
  /** Questions that the host is showing, with what takes them back. */
  readonly shown: Map<string, AbortController>;
}

/** Sends one session's events to one connection: missed ones first, then live ones, in one stream. */
class Followed {
  readonly #deps: RpcDeps;
  readonly #peer: RpcPeer;
  readonly #from: From;
  readonly #ended = new AbortController();
  readonly #groups: AsyncIterable<readonly JournalEvent[]>;
  #shown: From["shown"];
  /** Questions that were open when the replay began; undefined before that. */
  #open: ReadonlySet<string> | undefined;
  #sentSeq: number;
  readonly #waiting = new Set<{ readonly seq: number; readonly resolve: () => void }>();

  constructor(deps: RpcDeps, peer: RpcPeer, from: From) {
    this.#deps = deps;
    this.#peer = peer;
    this.#from = from;
    const { sessionId, after, shown } = from;
    this.#shown = shown;
    this.#sentSeq = after;
    // Follow from now on, so that nothing is lost between the replay and the live events.
    this.#groups = deps.store.journal.follow({ sessionId }, { after, signal: this.#ended.signal });
  }

  end(): void {
    this.#ended.abort();
    this.#reportSent(Number.POSITIVE_INFINITY);
    for (const shown of this.#shown.values()) shown.abort();
    this.#shown.clear();
  }

  /** Ends, and hands its questions over to its successor: the host still has to answer them. */
  handOver(): From["shown"] {
    const shown = this.#shown;
    this.#shown = new Map();
    this.end();
    return shown;
  }

  /** Resolves when all events committed so far are sent, or when this follower ends. */
  async caughtUp(): Promise<void> {
    const { latestSeq: seq } = await replayFrom(this.#deps.store, this.#from.sessionId);
    if (seq <= this.#sentSeq) return;
    await new Promise<void>((resolve) => this.#waiting.add({ seq, resolve }));
  }

  /** Resolves when this follower ends. Rejects when the journal cannot be read. */
  async run(): Promise<void> {
    const { latestSeq } = this.#from;
    const { owner } = this.#peer.identity;
    const projector = await this.#projector();
    for await (const group of this.#groups) {
      for (const entry of group) {
        const isAsked = this.#peer.profile.serverRequests && entry.type.endsWith(".request");
        const events = await projector.project(entry);
        if (this.#ended.signal.aborted) return;
        for (const event of events) this.#peer.event(event);
        if (isAsked && !this.#isOver(entry)) this.#ask(entry, owner);
        this.#settle(entry);
        this.#reportSent(entry.seq);
        if (this.#peer.transport === "stdio" || entry.seq <= latestSeq) await this.#peer.drained();
        if (this.#ended.signal.aborted) return;
      }
    }
  }

  async #projector(): Promise<EventProjector> {
    const { sessionId, after, latestSeq, isReplay } = this.#from;
    const { owner } = this.#peer.identity;
    if (isReplay && latestSeq > after) {
      const open = await this.#deps.agent.deps.questions.open({ sessionId });
      this.#open = new Set(open.map(({ id }) => id));
    }
    const { projector, opening } = await EventProjector.open({
      store: this.#deps.store,
      sessionId,
      after,
      info: () => sessionInfo(this.#deps, sessionId, owner),
      isSettled: (id, seq) =>
        this.#peer.profile.serverRequests || (seq <= latestSeq && this.#open?.has(id) === false),
    });
    if (isReplay && !this.#ended.signal.aborted) for (const event of opening) this.#peer.event(event);
    return projector;
  }

  #reportSent(seq: number): void {
    this.#sentSeq = seq;
    for (const waiting of this.#waiting) {
      if (waiting.seq > seq) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
  }

  #isOver({ data, seq }: JournalEvent): boolean {
    return seq <= this.#from.latestSeq && this.#open?.has(String(data["request_id"])) === false;
  }

  #ask(entry: JournalEvent, owner: string): void {
    const method = questionMethodOf(entry.type);
    if (method === undefined) return;
    const shown = new AbortController();
    this.#shown.set(String(entry.data["request_id"]), shown);
    void askHost(this.#deps, this.#peer, { method, entry, owner, signal: shown.signal });
  }

  /** Takes the question back after another answer, or after it expired. */
  #settle({ type, data }: JournalEvent): void {
    if (!type.endsWith(".responded") && !type.endsWith(".expired")) return;
    const id = String(data["request_id"]);
    this.#shown.get(id)?.abort();
    this.#shown.delete(id);
  }
}

function reclaimedEvent({ id }: LiveSession, ts: number): GatewayEvent {
  const payload = { session_id: id, stored_session_id: id, reason: "idle_timeout" as const };
  return { type: "session.reclaimed", session_id: id, ts, payload };
}

/** Creates the subscriptions of a connection. */
export function createSubscriptions(deps: RpcDeps, peer: RpcPeer): Subscriptions {
  return new Notify(deps, peer);
}
