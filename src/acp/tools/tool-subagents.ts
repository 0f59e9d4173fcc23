/** What the sub-agents of a call do, as a list for people. Pure. */
import { shorten } from "../../base/text.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

interface Subagent {
  readonly callId: string;
  readonly goal: string;
  state: string;
  tools: number;
  /** What it did or said last. */
  last: string;
}

const MAX_SUBAGENTS = 256;
const MAX_LINE_CHARACTERS = 200;

/** The sub-agents of a turn, from its events. */
export class ToolSubagents {
  readonly #known = new Map<string, Subagent>();

  /** The call that an event is about; undefined for events that are not about sub-agents, or about unknown ones. */
  take({ type, data }: Pick<JournalEvent, "type" | "data">): string | undefined {
    const id = String(data["subagent_id"]);
    if (type === "subagent.spawn_requested") this.#add(id, data);
    const known = this.#known.get(id);
    if (!known) return undefined;
    switch (type) {
      case "subagent.spawn_requested":
        break;
      case "subagent.start":
        known.state = "at work";
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

  /** One line for each sub-agent of a call. */
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
    this.#known.set(id, { callId: String(data["tool_call_id"]), goal, state: "waits", tools: 0, last: "" });
  }
}

function line(value: unknown): string {
  return shorten(String(value).replace(/\s+/g, " ").trim(), MAX_LINE_CHARACTERS);
}
