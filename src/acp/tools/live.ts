/** Live output of tool calls and sub-agents, reduced to what a client needs. */
import { tailOf } from "./content.ts";
import type { Clock } from "../../base/clock.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

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
  const text = String(value).replace(/\s+/g, " ").trim();
  return text.length <= MAX_LINE_CHARACTERS ? text : `${text.slice(0, MAX_LINE_CHARACTERS - 1)}…`;
}
