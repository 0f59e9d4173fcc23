/** The tool calls and sub-agents of a turn as a client sees them, with live output reduced to what it needs. */
import { shorten, toOneLine } from "../../base/text.ts";
import type {
  SessionUpdate,
  ToolCall,
  ToolCallContent,
  ToolCallUpdate,
} from "@agentclientprotocol/sdk/unstable";
import type { Clock } from "../../base/time.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { ClientFeatures } from "../wire/connection.ts";
import {
  CANCELLED,
  type ToolEnd,
  type ToolStart,
  commandOf,
  startContent,
  terminalContent,
  terminalExit,
  terminalInfo,
  terminalOutput,
  toolCallIdOf,
  toolCallOf,
  toolEndFrom,
  toolEndOf,
  toolStartOf,
} from "./view.ts";
import { outputContent, tailOf, textContent } from "./content.ts";

interface ToolCallsOptions {
  readonly features: Pick<ClientFeatures, "terminalOutput">;
  /** The working folder of the session. */
  readonly cwd: string;
  readonly clock: Clock;
  /** Resolves when the update is written. MUST NOT reject. */
  readonly send: (update: SessionUpdate) => Promise<void>;
}

/** A call that has not ended. */
interface OpenCall {
  readonly start: ToolStart;
  readonly sent: ToolCall;
  /** The content before its live output. Empty if that is long, because each update repeats it. */
  readonly lead: readonly ToolCallContent[];
  readonly throttle: Throttle;
  readonly tail: LiveTail;
  /** Set if the client shows the output as a terminal. */
  readonly pieces: LivePieces | undefined;
  isAtWork: boolean;
}

/** The limit of live output of a call; see agent/tool/context.ts. */
const MAX_PROGRESS_BYTES = 262_144;
const LAST_BYTES = 8_192;
/** The limit of the repeated content, as JSON. */
const MAX_LEAD_CHARACTERS = 8_192;

/** Turns the tool events of one turn into updates for the client. */
export class ToolCalls {
  readonly #options: ToolCallsOptions;
  readonly #open = new Map<string, OpenCall>();
  readonly #subagents = new ToolSubagents();
  /** Waiting calls by the id of their question. */
  readonly #waiting = new Map<string, string>();

  constructor(options: ToolCallsOptions) {
    this.#options = options;
  }

  /** Returns an open call as it was sent to the client. */
  find(toolCallId: string): ToolCall | undefined {
    return this.#open.get(toolCallId)?.sent;
  }

  async take(event: JournalEvent): Promise<void> {
    switch (event.type) {
      case "tool.started":
        return this.#start(event);
      case "approval.request":
        return void this.#waiting.set(String(event.data["request_id"]), idOf(event));
      case "approval.responded":
        return this.#answered(event);
      case "tool.progress":
        return this.#progress(event);
      case "tool.completed":
        return this.#end(event);
      default:
        return this.#subagent(event);
    }
  }

  /** Reports the calls that are open at the end of the turn as failed. */
  async abandon(): Promise<void> {
    for (const [id, { start, throttle, pieces, sent }] of this.#open) {
      throttle.stop();
      const content = [...(pieces ? (sent.content ?? []) : startContent(start)), textContent(CANCELLED)];
      const exit = pieces ? { _meta: terminalExit(id, undefined) } : {};
      await this.#update({ toolCallId: id, status: "failed", content, ...exit });
    }
    this.#open.clear();
  }

  /** Stops all updates. */
  stop(): void {
    for (const { throttle } of this.#open.values()) throttle.stop();
    this.#open.clear();
  }

  async #start(event: JournalEvent): Promise<void> {
    const { features, cwd, clock, send } = this.#options;
    const start = toolStartOf(event, cwd);
    const id = idOf(event);
    const isTerminal = features.terminalOutput !== "no" && commandOf(start) !== undefined;
    const call = toolCallOf(start);
    const sent = isTerminal
      ? { ...call, content: terminalContent(start, id), _meta: terminalInfo(start, id) }
      : call;
    this.#open.get(id)?.throttle.stop();
    this.#open.set(id, {
      start,
      sent,
      lead: leadOf(sent.content ?? []),
      throttle: new Throttle(clock, LIVE_INTERVAL_MS, () => this.#sendLive(id)),
      tail: new LiveTail(),
      pieces: isTerminal ? new LivePieces() : undefined,
      isAtWork: false,
    });
    await send({ sessionUpdate: "tool_call", ...sent });
    if (event.data["waits"] !== true) await this.#atWork(id);
  }

  async #answered({ data }: JournalEvent): Promise<void> {
    const questionId = String(data["request_id"]);
    const id = this.#waiting.get(questionId);
    this.#waiting.delete(questionId);
    if (id !== undefined && data["choice"] !== "deny") await this.#atWork(id);
  }

  async #atWork(id: string): Promise<void> {
    const call = this.#open.get(id);
    if (!call || call.isAtWork) return;
    call.isAtWork = true;
    await this.#update({ toolCallId: id, status: "in_progress" });
  }

  async #progress(event: JournalEvent): Promise<void> {
    const call = this.#open.get(idOf(event));
    if (!call) return;
    const delta = String(event.data["delta"]);
    (call.pieces ?? call.tail).push(delta);
    await this.#atWork(idOf(event));
    call.throttle.request();
  }

  async #subagent(event: JournalEvent): Promise<void> {
    const callId = this.#subagents.take(event);
    if (callId === undefined) return;
    const id = toolCallIdOf(event.runId ?? "", callId);
    const call = this.#open.get(id);
    call?.tail.replace(this.#subagents.text(callId));
    call?.throttle.request();
  }

  async #sendLive(id: string): Promise<void> {
    const call = this.#open.get(id);
    if (!call) return;
    if (call.pieces) return this.#sendPiece(id, call.pieces.take());
    const live = call.tail.take();
    if (!live) return;
    const content = [...call.lead, outputContent(live.text, live.omittedBytes)];
    await this.#update({ toolCallId: id, status: "in_progress", content });
  }

  async #sendPiece(id: string, piece: string | undefined): Promise<void> {
    const { terminalOutput: offered } = this.#options.features;
    if (piece === undefined || offered === "no") return;
    await this.#update({ toolCallId: id, _meta: terminalOutput(id, piece, offered) });
  }

  async #end(event: JournalEvent): Promise<void> {
    const id = idOf(event);
    const call = this.#open.get(id);
    this.#open.delete(id);
    call?.throttle.stop();
    const start = call?.start ?? toolStartOf(event, this.#options.cwd);
    const end = toolEndFrom(event.data);
    const view = toolEndOf(start, end);
    if (!call?.pieces) return this.#update({ toolCallId: id, ...view });
    await this.#sendPiece(id, call.pieces.take());
    await this.#sendPiece(id, lastOutput(call.pieces, end));
    const content = isShown(call.pieces, end) ? [...(call.sent.content ?? [])] : view.content;
    await this.#update({ toolCallId: id, ...view, content, _meta: terminalExit(id, end.exit) });
  }

  #update(update: ToolCallUpdate): Promise<void> {
    return this.#options.send({ sessionUpdate: "tool_call_update", ...update });
  }
}

function idOf({ runId, data }: JournalEvent): string {
  return toolCallIdOf(runId ?? "", String(data["tool_call_id"]));
}

function leadOf(content: readonly ToolCallContent[]): readonly ToolCallContent[] {
  return JSON.stringify(content).length <= MAX_LEAD_CHARACTERS ? content : [];
}

/** Returns whether the terminal already shows the whole output. */
function isShown(pieces: LivePieces, { status, exit }: ToolEnd): boolean {
  return status === "ok" && (exit !== undefined || pieces.seenBytes > 0);
}

/** Returns the tail of the output if it exceeded the limit of live output. */
function lastOutput({ seenBytes }: LivePieces, { result }: ToolEnd): string | undefined {
  if (seenBytes < MAX_PROGRESS_BYTES) return undefined;
  return `\n[output omitted; it ends with:]\n${tailOf(result, LAST_BYTES).text}`;
}

const MAX_LIVE_BYTES = 8_192;
/** The allowance that lets short outputs be shown at once. */
const FREE_BYTES = 16_384;

/** For clients that replace the output with each update. Sends at most twice the bytes of the output in total. */
export class LiveTail {
  #text = "";
  #seenBytes = 0;
  #sentBytes = 0;
  /** Bytes of replaced texts. */
  #replacedBytes = 0;
  #isNew = false;

  push(delta: string): void {
    this.#seenBytes += Buffer.byteLength(delta);
    this.#text = tailOf(this.#text + delta, MAX_LIVE_BYTES).text;
    this.#isNew = true;
  }

  /** Replaces the text, for example a list that changed. */
  replace(text: string): void {
    if (text === this.#text) return;
    this.#text = "";
    this.#replacedBytes = this.#seenBytes;
    this.push(text);
  }

  /** Returns undefined without new output, or beyond the allowance. */
  take(): { readonly text: string; readonly omittedBytes: number } | undefined {
    const bytes = Buffer.byteLength(this.#text);
    if (!this.#isNew || this.#sentBytes + bytes > 2 * this.#seenBytes + FREE_BYTES) return undefined;
    this.#isNew = false;
    this.#sentBytes += bytes;
    return { text: this.#text, omittedBytes: this.#seenBytes - this.#replacedBytes - bytes };
  }
}

/** For clients that append each update. Keeps the tail of output that arrives too fast. */
export class LivePieces {
  #text = "";
  #omittedBytes = 0;
  /** The bytes of the whole output. */
  seenBytes = 0;

  push(delta: string): void {
    this.seenBytes += Buffer.byteLength(delta);
    const { text, omittedBytes } = tailOf(this.#text + delta, MAX_LIVE_BYTES);
    this.#text = text;
    this.#omittedBytes += omittedBytes;
  }

  take(): string | undefined {
    if (this.#text === "") return undefined;
    const piece =
      this.#omittedBytes > 0 ? `\n[${this.#omittedBytes} bytes omitted]\n${this.#text}` : this.#text;
    this.#text = "";
    this.#omittedBytes = 0;
    return piece;
  }
}

/** The shortest interval between updates of live output. */
export const LIVE_INTERVAL_MS = 250;

/** Runs a function at most once per interval, never concurrently, and once more after requests during a run. */
export class Throttle {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #run: () => Promise<void>;
  #lastMs = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | undefined;
  #isRunning = false;
  #isWanted = false;
  #isOver = false;

  /** `run` MUST NOT reject. */
  constructor(clock: Clock, everyMs: number, run: () => Promise<void>) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#run = run;
  }

  request(): void {
    if (this.#isOver || this.#cancel) return;
    this.#isWanted = true;
    if (this.#isRunning) return;
    const waitMs = this.#lastMs + this.#everyMs - this.#clock.now();
    if (waitMs <= 0) return void this.#go();
    this.#cancel = this.#clock.after(waitMs, () => {
      this.#cancel = undefined;
      void this.#go();
    });
  }

  /** Cancels the next run. */
  stop(): void {
    this.#isOver = true;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  async #go(): Promise<void> {
    this.#isRunning = true;
    this.#isWanted = false;
    this.#lastMs = this.#clock.now();
    await this.#run();
    this.#isRunning = false;
    if (this.#isWanted) this.request();
  }
}

interface Subagent {
  readonly callId: string;
  readonly goal: string;
  state: string;
  tools: number;
  /** Its last action or message. */
  last: string;
}

const MAX_SUBAGENTS = 256;
const MAX_LINE_CHARACTERS = 200;

/** Lists the sub-agents of a turn, from its events. */
export class ToolSubagents {
  readonly #known = new Map<string, Subagent>();

  /** Applies an event. Returns the call of its sub-agent, or undefined if it has none. */
  take({ type, data }: Pick<JournalEvent, "type" | "data">): string | undefined {
    const id = String(data["subagent_id"]);
    if (type === "subagent.spawn_requested") this.#add(id, data);
    const known = this.#known.get(id);
    if (!known) return undefined;
    switch (type) {
      case "subagent.spawn_requested":
        break;
      case "subagent.start":
        known.state = "running";
        break;
      case "subagent.tool":
        known.tools = Number(data["tool_count"]);
        known.last = line(data["preview"] ?? data["tool"]);
        break;
      case "subagent.progress":
        known.last = line(data["text"]);
        break;
      case "subagent.complete":
        known.state = String(data["status"]);
        known.last = line(data["summary"] ?? "");
        break;
      default:
        return undefined;
    }
    return known.callId;
  }

  /** Returns the list of sub-agents of a call. */
  text(callId: string): string {
    const own = [...this.#known.values()].filter((each) => each.callId === callId);
    return own
      .map(({ goal, state, tools, last }, index) => {
        const calls = tools === 0 ? "" : `, ${tools} tool ${tools === 1 ? "call" : "calls"}`;
        return `${index + 1}. ${goal}\n   ${state}${calls}${last === "" ? "" : `: ${last}`}`;
      })
      .join("\n");
  }

  #add(id: string, data: JournalEvent["data"]): void {
    if (this.#known.size >= MAX_SUBAGENTS) return;
    const goal = line(data["goal"]);
    this.#known.set(id, { callId: String(data["tool_call_id"]), goal, state: "queued", tools: 0, last: "" });
  }
}

function line(value: unknown): string {
  return shorten(toOneLine(String(value)), MAX_LINE_CHARACTERS);
}
