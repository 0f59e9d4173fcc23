/**
 * Projects the journal of a session to gateway events. Pure. Each journal entry gives exactly one numbered event,
 * with the entry's number. So the numbers have no gaps, a cursor is a position in the journal, and a replay
 * repeats every number. An entry that means more also gives snapshots without a number (`session.info` after
 * `message.complete` and `session.title`). A client that resumes at that entry gets them again, which is harmless.
 */
import type { GatewayEvent, GatewayEvents, GatewayEventType } from "../../../generated/gateway/host.gen.ts";
import type { SessionInfo, SubagentReport } from "../../../generated/gateway/types/types.gen.ts";
import { isFinalEvent } from "../../agent/run/run.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import {
  completePayload,
  usageOf,
  statusLine,
  subagentChange,
  subagentReport,
  toolPayload,
  startedCall,
  type StartedCall,
  taskIdOf,
  turnIdOf,
} from "./payloads.ts";
import { cancelPayload, questionMethodOf, questionPayload } from "./questions.ts";

/** Data of an event that its entry does not contain. */
export interface EntryExtras {
  /** For a run that starts: its prompt. */
  readonly prompt?: { readonly role: string; readonly text: string };
  /** For a queued run: the start of its prompt. */
  readonly preview?: string;
  /** For a run that did not complete: its output so far. */
  readonly output?: string;
  /** For a call whose start the reducer did not read: what the call is about. */
  readonly call?: StartedCall;
  /** The session as it is, if {@link GatewayReducer.wantsInfo}. */
  readonly info?: SessionInfo;
  /** For a question: true when it is closed, or shown in another way. */
  readonly isSettled?: boolean;
}

interface OpenTurn {
  readonly runId: string;
  readonly kind: string;
  readonly model: string;
}

type SubagentEventType = Extract<GatewayEventType, `subagent.${string}`>;

type Payload<K extends GatewayEventType> = GatewayEvents[K]["payload"];

/**
 * Entry types that change the reducer's state or have a trailer. A reader that starts in the middle applies them
 * first.
 */
export const STATE_TYPES = [
  "run.queued",
  "run.started",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
  "session.updated",
  "subagent.spawn_requested",
  "subagent.start",
] as const;

/** Reads the journal of one session from front to back. */
export class GatewayReducer {
  readonly #sessionId: string;
  #turn: OpenTurn | undefined;
  #queued: readonly { readonly turn_id: string; readonly text_preview: string }[] = [];
  #subagents = new Map<string, SubagentReport>();
  /** What the running calls are about, by call. */
  #calls = new Map<string, StartedCall>();
  /** What the model said since its last call. */
  #said = "";

  constructor(sessionId: string) {
    this.#sessionId = sessionId;
  }

  /** Returns true when the entry needs `extra.info`. */
  wantsInfo(entry: JournalEvent): boolean {
    if (entry.type === "session.updated") return true;
    return isFinalEvent(entry.type) && this.#turn?.runId === entry.runId;
  }

  /** Returns the entry's numbered event, and its trailer. */
  project(entry: JournalEvent, extra: EntryExtras = {}): readonly GatewayEvent[] {
    const { type, runId, data } = entry;
    switch (type) {
      case "run.queued":
        return this.#enqueued(entry, extra);
      case "run.started":
        return this.#started(entry, extra);
      case "message.started":
        // Clears what was shown while the model was silent.
        return [this.#event(entry, "thinking.delta", { text: "" })];
      case "message.completed":
        this.#said = text(data["text"]);
        // Not a thinking.delta: hosts show it a moment later, when the turn may be over.
        return [this.#event(entry, "status.update", { kind: "lifecycle", text: "" })];
      case "tool.generating":
        return this.#withSaid(entry, { context: "" });
      case "tool.started":
        return this.#called(entry);
      case "message.delta":
      case "reasoning.delta":
        return [this.#event(entry, type, { text: text(data["delta"]) })];
      case "reasoning.completed":
        return [this.#event(entry, "reasoning.available", { text: text(data["text"]) })];
      case "usage.updated":
        return [this.#event(entry, "session.usage", { usage: usageOf(data["usage"], this.#modelOf(runId)) })];
      case "session.updated":
        return this.#updated(entry, extra);
      case "background.complete":
        return [
          this.#event(entry, type, {
            ...(data as Payload<"background.complete">),
            task_id: taskIdOf(text(data["task_id"])),
          }),
        ];
    }
    if (isFinalEvent(type)) return this.#ended(entry, extra);
    if (type === "sudo.expired") return this.#expired(entry, "sudo.expire");
    if (type === "secret.expired") return this.#expired(entry, "secret.expire");
    return [this.#other(entry, extra)];
  }

  /** Returns true when a snapshot follows the entry's event: after the end of a turn, and after a new title. */
  hasTrailer({ type, data, runId }: JournalEvent): boolean {
    if (type === "session.updated") return data["title"] !== undefined;
    return isFinalEvent(type) && this.#turn?.runId === runId;
  }

  /** Returns the snapshot that follows an entry's numbered event. */
  trailer(entry: JournalEvent, info: SessionInfo): GatewayEvent {
    return this.#unnumbered(entry, "session.info", this.#now(info));
  }

  /** Returns true for a call whose start this reducer did not read. */
  wantsCall({ type, data }: JournalEvent): boolean {
    if (type !== "tool.progress" && type !== "tool.completed") return false;
    return !this.#calls.has(text(data["tool_call_id"]));
  }

  get isRunning(): boolean {
    return this.#turn !== undefined;
  }

  /** Restores what the model said before its next call. */
  resumeText(said: string): void {
    this.#said = said;
  }

  #called(entry: JournalEvent): readonly GatewayEvent[] {
    const call = startedCall(entry);
    this.#calls.set(text(entry.data["tool_call_id"]), call);
    return this.#withSaid(entry, call);
  }

  /** Returns the event of a call, and after the first one what the model said before it. */
  #withSaid(entry: JournalEvent, call: StartedCall): readonly GatewayEvent[] {
    const tool = toolPayload(entry, call);
    const events = tool ? [this.#event(entry, tool.type, tool.payload as Payload<typeof tool.type>)] : [];
    if (this.#said === "") return events;
    const interim = { text: this.#said, already_streamed: true as const };
    this.#said = "";
    return [...events, this.#unnumbered(entry, "message.interim", interim)];
  }

  #callOf({ type, data }: JournalEvent, extra: EntryExtras): StartedCall {
    const id = text(data["tool_call_id"]);
    const call = this.#calls.get(id) ?? extra.call ?? { context: "" };
    if (type === "tool.progress") this.#calls.set(id, call);
    if (type === "tool.completed") this.#calls.delete(id);
    return call;
  }

  /** Unnumbered events come last, so that a client that reconnects after each event makes progress. */
  #expired(entry: JournalEvent, type: "sudo.expire" | "secret.expire"): readonly GatewayEvent[] {
    const expired = this.#unnumbered(entry, type, { request_id: text(entry.data["request_id"]) });
    return [this.#other(entry, {}), expired];
  }

  #other(entry: JournalEvent, extra: EntryExtras): GatewayEvent {
    const { type, data } = entry;
    const method = questionMethodOf(type);
    if (method !== undefined) {
      if (type.endsWith(".request")) return this.#question(entry, extra);
      return this.#event(entry, "request.cancel", cancelPayload(method, entry));
    }
    const tool = toolPayload(entry, this.#callOf(entry, extra));
    if (tool) return this.#event(entry, tool.type, tool.payload as Payload<typeof tool.type>);
    if (type.startsWith("subagent.")) return this.#subagent(entry);
    // The start of a run that compresses was already reported as one.
    const isKnown = type === "compression.started" && this.#turn?.kind === "compression";
    const status = isKnown ? undefined : statusLine(type, data);
    return this.#event(entry, "status.update", status ?? { kind: "lifecycle", text: "" });
  }

  #enqueued(entry: JournalEvent, extra: EntryExtras): readonly GatewayEvent[] {
    const { position } = entry.data;
    // A run without a queue position starts at once and is never shown as queued.
    if (typeof position === "number") {
      const waiting = { turn_id: turnIdOf(entry.runId ?? ""), text_preview: extra.preview ?? "" };
      this.#queued = this.#queued.toSpliced(position - 1, 0, waiting);
    }
    return [this.#queue(entry)];
  }

  #started(entry: JournalEvent, extra: EntryExtras): readonly GatewayEvent[] {
    const { runId, data } = entry;
    // A run that resumes in another process is the same turn.
    if (this.#turn?.runId === runId) {
      return [this.#event(entry, "status.update", { kind: "lifecycle", text: "The turn continues." })];
    }
    const turnId = turnIdOf(runId ?? "");
    const waited = this.#queued.some(({ turn_id }) => turn_id === turnId);
    this.#queued = this.#queued.filter(({ turn_id }) => turn_id !== turnId);
    this.#turn = { runId: runId ?? "", kind: text(data["kind"]), model: text(data["model"]) };
    this.#subagents = new Map();
    if (this.#turn.kind === "compression") {
      const payload = { kind: "compressing", text: "Compressing the conversation." };
      return [this.#event(entry, "status.update", payload)];
    }
    const started = this.#event(entry, "message.start", {
      turn_id: turnId,
      ...(extra.prompt ? { input: extra.prompt } : {}),
      origin: originOf(this.#turn.kind, waited),
    });
    return [started];
  }

  #ended(entry: JournalEvent, extra: EntryExtras): readonly GatewayEvent[] {
    const turnId = turnIdOf(entry.runId ?? "");
    if (this.#turn?.runId !== entry.runId) {
      this.#queued = this.#queued.filter(({ turn_id }) => turn_id !== turnId);
      return [this.#queue(entry)];
    }
    const { kind, model } = this.#turn;
    this.#turn = undefined;
    this.#subagents = new Map();
    this.#calls = new Map();
    this.#said = "";
    const event =
      kind === "compression"
        ? this.#event(entry, "status.update", { kind: "status", text: "ready" })
        : this.#event(
            entry,
            "message.complete",
            this.#completion(entry, { model, output: extra.output }, extra),
          );
    return extra.info ? [event, this.trailer(entry, extra.info)] : [event];
  }

  /** Takes the usage from the snapshot that follows, which covers the session. */
  #completion(
    entry: JournalEvent,
    turn: { readonly model: string; readonly output: string | undefined },
    { info }: EntryExtras,
  ): Payload<"message.complete"> {
    const payload = completePayload(entry, turn);
    return { ...payload, usage: info?.usage ?? payload.usage, turn_usage: payload.usage };
  }

  #updated(entry: JournalEvent, { info }: EntryExtras): readonly GatewayEvent[] {
    const { title } = entry.data;
    if (title !== undefined) {
      const event = this.#event(entry, "session.title", { session_id: this.#sessionId, title: text(title) });
      // Hosts that do not know session.title read the title here.
      return info ? [event, this.trailer(entry, info)] : [event];
    }
    if (!info) return [this.#event(entry, "status.update", { kind: "status", text: "" })];
    return [this.#event(entry, "session.info", this.#now(info))];
  }

  #question(entry: JournalEvent, { isSettled = false }: EntryExtras): GatewayEvent {
    // A settled question is not asked again, but keeps its number.
    if (isSettled) return this.#event(entry, "status.update", { kind: "approval", text: "" });
    const { data } = entry;
    switch (questionMethodOf(entry.type)) {
      case "clarify":
        return this.#event(entry, "clarify.request", questionPayload("clarify", data));
      case "sudo":
        return this.#event(entry, "sudo.request", questionPayload("sudo", data));
      case "secret":
        return this.#event(entry, "secret.request", questionPayload("secret", data));
      default:
        return this.#event(entry, "approval.request", questionPayload("approval", data));
    }
  }

  #subagent(entry: JournalEvent): GatewayEvent {
    const { type, data } = entry;
    const id = text(data["subagent_id"]);
    const isFirst = type === "subagent.spawn_requested" || type === "subagent.start";
    if (isFirst) this.#subagents.set(id, subagentReport(data));
    const report = this.#subagents.get(id) ?? subagentReport({ ...data, subagent_id: id });
    const now = { ...report, ...subagentChange(type, data) };
    if (type === "subagent.tool") this.#subagents.set(id, { ...report, ...toolsOf(now) });
    return this.#event(entry, type as SubagentEventType, now);
  }

  #queue(entry: JournalEvent): GatewayEvent {
    return this.#event(entry, "session.queue", { queued: this.#queued.map((waiting) => ({ ...waiting })) });
  }

  #modelOf(runId: string | null): string {
    return this.#turn?.runId === runId ? (this.#turn?.model ?? "") : "";
  }

  /** Takes `running` from the journal: the session itself may be ahead. */
  #now(info: SessionInfo): SessionInfo {
    return { ...info, running: this.#turn !== undefined };
  }

  #unnumbered<K extends GatewayEventType>(entry: JournalEvent, type: K, payload: Payload<K>): GatewayEvent {
    const { seq: _, ...event } = this.#event(entry, type, payload) as GatewayEvent;
    return event as GatewayEvent;
  }

  #event<K extends GatewayEventType>(entry: JournalEvent, type: K, payload: Payload<K>): GatewayEvents[K] {
    return {
      type,
      session_id: this.#sessionId,
      seq: entry.seq,
      ts: entry.atMs,
      ...(entry.runId === null ? {} : { turn_id: turnIdOf(entry.runId) }),
      payload,
    } as unknown as GatewayEvents[K];
  }
}

function originOf(kind: string, waited: boolean): Payload<"message.start">["origin"] {
  if (kind === "background") return "background";
  if (kind === "subagent") return "other";
  return waited ? "queue" : "user";
}

function toolsOf({ tool_count: count }: SubagentReport): Partial<SubagentReport> {
  return count === undefined ? {} : { tool_count: count };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
