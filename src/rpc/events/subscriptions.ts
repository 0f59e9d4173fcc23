/** The subscriptions of a connection: reads the journal of each session, and sends its events. */
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { Cursor, SessionInfo } from "../../../generated/gateway/types/types.gen.ts";
import { type LiveSession, textOf } from "../../agent/session/session.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { askHost, openQuestionEvent, QUESTION_METHODS, questionMethodOf } from "./questions.ts";
import type { Attached, RpcPeer, Subscriptions, RpcDeps } from "../deps.ts";
import { sessionInfo } from "../session/session.ts";
import { headOf } from "../../base/text.ts";
import { isFinalEvent, parseInput } from "../../agent/run/run.ts";
import { startedCall, type StartedCall } from "./payloads.ts";
import { GatewayReducer, STATE_TYPES, type EntryExtras } from "./gateway-events.ts";

/** Follows the journal of each session from a cursor. */
class JournalSubscriptions implements Subscriptions {
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
    const from = await replayFrom(this.#deps, sessionId, cursor);
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

  async showOpen(sessionId: string, { missingOnly }: { readonly missingOnly: boolean }): Promise<void> {
    await this.#followed.get(sessionId)?.showOpen(missingOnly);
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
  /** For each {@link showOpen} under way, the questions that closed meanwhile. */
  readonly #closing = new Set<Set<string>>();
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
    const { latestSeq: seq } = await replayFrom(this.#deps, this.#from.sessionId);
    if (seq <= this.#sentSeq) return;
    await new Promise<void>((resolve) => this.#waiting.add({ seq, resolve }));
  }

  /** See {@link Subscriptions.showOpen}. Questions after the last sent entry are sent with their entries. */
  async showOpen(missingOnly: boolean): Promise<void> {
    const { agent, clock } = this.#deps;
    const { sessionId } = this.#from;
    const closed = new Set<string>();
    this.#closing.add(closed);
    try {
      const open = new Set((await agent.deps.questions.open({ sessionId })).map(({ id }) => id));
      if (open.size === 0) return;
      const types = [...QUESTION_METHODS].map((method) => `${method}.request`);
      const position = { sessionId, upTo: Number.MAX_SAFE_INTEGER };
      const asked = await agent.runs.reads.eventsUpTo(position, { types, limit: MAX_STATE_ENTRIES });
      for (const entry of asked) {
        const id = String(entry.data["request_id"]);
        if (entry.seq > this.#sentSeq || !open.has(id) || closed.has(id)) continue;
        if (this.#peer.profile.serverRequests) {
          if (!this.#shown.has(id)) this.#ask(entry, this.#peer.identity.owner);
        } else if (!missingOnly) {
          this.#peer.event({ ...openQuestionEvent(this.#peer, entry), ts: clock.now() });
        }
      }
    } finally {
      this.#closing.delete(closed);
    }
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
      deps: this.#deps,
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
    for (const closed of this.#closing) closed.add(id);
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
  return new JournalSubscriptions(deps, peer);
}

/** Entries that are read back to restore the reducer's state. */
const MAX_STATE_ENTRIES = 1_000;
const MAX_RUNNING_CALLS = 100;
const MAX_PREVIEW_CHARACTERS = 120;
const MAX_INPUT_CHARACTERS = 65_536;

type ReadDeps = Pick<RpcDeps, "store" | "agent">;

export interface EventProjectorOptions {
  readonly deps: ReadDeps;
  readonly sessionId: string;
  /** The last entry that the client has. */
  readonly after: number;
  /** Reads the session as it is now. */
  readonly info: () => Promise<SessionInfo | undefined>;
  /** Returns true for a question that is closed, or shown in another way. */
  readonly isSettled?: (requestId: string, seq: number) => boolean;
}

/** Projects a session's journal from any position: reads the data that the events need and the entries lack. */
class EventProjector {
  readonly #options: EventProjectorOptions;
  readonly #reads: RpcDeps["agent"]["runs"]["reads"];
  readonly #reducer: GatewayReducer;

  private constructor(options: EventProjectorOptions) {
    this.#options = options;
    this.#reads = options.deps.agent.runs.reads;
    this.#reducer = new GatewayReducer(options.sessionId);
  }

  /** `opening` precedes all other events: the part of its last entry that the client may have missed. */
  static async open(
    options: EventProjectorOptions,
  ): Promise<{ readonly projector: EventProjector; readonly opening: readonly GatewayEvent[] }> {
    const projector = new EventProjector(options);
    return { projector, opening: await projector.#restore() };
  }

  async project(entry: JournalEvent): Promise<readonly GatewayEvent[]> {
    return this.#reducer.project(entry, await this.#extraOf(entry));
  }

  async #restore(): Promise<readonly GatewayEvent[]> {
    const { sessionId, after, info } = this.#options;
    if (after === 0) return [];
    const entries = await this.#reads.eventsUpTo(
      { sessionId, upTo: after },
      { types: STATE_TYPES, limit: MAX_STATE_ENTRIES },
    );
    const queued = entries.filter(({ type }) => type === "run.queued").flatMap(({ runId }) => runId ?? []);
    const previews = await this.#previews(queued);
    let hasTrailer = false;
    for (const entry of entries) {
      hasTrailer = entry.seq === after && this.#reducer.hasTrailer(entry);
      this.#reducer.project(entry, { preview: previews.get(entry.runId ?? "") ?? "" });
    }
    if (this.#reducer.isRunning) await this.#restoreText();
    const last = hasTrailer ? entries.at(-1) : undefined;
    const now = last && (await info());
    return last && now ? [this.#reducer.trailer(last, now)] : [];
  }

  /** Restores what the model said last, if none of its calls has started yet. */
  async #restoreText(): Promise<void> {
    const { sessionId, after } = this.#options;
    const types = ["run.started", "message.completed", "tool.generating", "tool.started"];
    const [last] = await this.#reads.eventsUpTo({ sessionId, upTo: after }, { types, limit: 1 });
    if (last?.type === "message.completed") this.#reducer.resumeText(String(last.data["text"]));
  }

  async #extraOf(entry: JournalEvent): Promise<EntryExtras> {
    const { info, isSettled } = this.#options;
    const now = this.#reducer.wantsInfo(entry) ? await info() : undefined;
    const runId = entry.runId ?? "";
    if (entry.type.endsWith(".request")) {
      return { isSettled: isSettled?.(String(entry.data["request_id"]), entry.seq) ?? false };
    }
    if (entry.type === "run.queued") {
      const run = await this.#options.deps.store.find("runs", { id: runId });
      return { preview: headOf(run?.input_preview ?? "", MAX_PREVIEW_CHARACTERS) };
    }
    if (entry.type === "run.started") return this.#promptOf(runId);
    if (this.#reducer.wantsCall(entry)) return { call: await this.#callOf(entry) };
    const isCut = isFinalEvent(entry.type) && entry.type !== "run.completed";
    const output = now && isCut ? await this.#reads.lastMessageText(runId) : undefined;
    return { ...(now ? { info: now } : {}), ...(output === undefined ? {} : { output }) };
  }

  async #callOf({ data, seq }: JournalEvent): Promise<StartedCall> {
    const { sessionId } = this.#options;
    const position = { sessionId, upTo: seq };
    const started = await this.#reads.eventsUpTo(position, {
      types: ["tool.started"],
      limit: MAX_RUNNING_CALLS,
    });
    const call = started.findLast((entry) => entry.data["tool_call_id"] === data["tool_call_id"]);
    return call ? startedCall(call) : { context: "" };
  }

  async #previews(runIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const previews = await this.#reads.inputPreviews(runIds);
    return new Map([...previews].map(([id, text]) => [id, headOf(text, MAX_PREVIEW_CHARACTERS)]));
  }

  async #promptOf(runId: string): Promise<EntryExtras> {
    const row = await this.#options.deps.store.find("runs", { id: runId });
    const prompt = row && parseInput(row).prompt.at(-1);
    if (!prompt) return {};
    return { prompt: { role: prompt.role, text: headOf(textOf(prompt), MAX_INPUT_CHARACTERS) } };
  }
}

/** Where a client resumes. */
export interface ReplayFrom {
  /** The last entry that the client has; the session's last one when the client must start anew. */
  readonly after: number;
  readonly latestSeq: number;
  readonly truncated: boolean;
}

/** Checks whether all events after a cursor are kept. Without a cursor, starts at the session's last event. */
export async function replayFrom(
  { store, agent }: ReadDeps,
  sessionId: string,
  cursor?: Cursor,
): Promise<ReplayFrom> {
  const latestSeq = (await store.find("sessions", { id: sessionId }))?.last_seq ?? 0;
  if (!cursor) return { after: latestSeq, latestSeq, truncated: false };
  const isKept =
    cursor.epoch === store.epoch &&
    cursor.last_seen <= latestSeq &&
    (await agent.sessions.reads.hasAllEvents({ sessionId, after: cursor.last_seen, upTo: latestSeq }));
  if (!isKept) return { after: latestSeq, latestSeq, truncated: true };
  return { after: cursor.last_seen, latestSeq, truncated: false };
}

/** Returns the events after `after`, up to the limits. Bytes are UTF-8 bytes. */
export async function readEvents(
  options: EventProjectorOptions,
  limits: { readonly events: number; readonly bytes: number },
): Promise<readonly GatewayEvent[]> {
  const { deps, sessionId, after } = options;
  const { projector, opening } = await EventProjector.open(options);
  const { events: limit, bytes: maxBytes } = limits;
  const entries = await deps.store.journal.read({ sessionId }, { after, limit, maxBytes });
  const events = [...opening];
  let bytes = 0;
  let lastSeq = after;
  for (const entry of entries) {
    const next = await projector.project(entry);
    bytes += Buffer.byteLength(JSON.stringify(next));
    if (lastSeq > after && (bytes > limits.bytes || events.length + next.length > limits.events)) break;
    events.push(...next);
    lastSeq = entry.seq;
  }
  return events;
}
