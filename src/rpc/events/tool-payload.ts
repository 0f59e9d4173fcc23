import type { FileChange, Todo, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import type {
  GatewayToolProgressPayload,
  ToolCompletePayload,
  ToolGeneratingPayload,
  ToolStartPayload,
} from "../../../generated/gateway/types/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { headOf, shorten } from "../../base/text.ts";

type ToolTold =
  | { readonly type: "tool.start"; readonly payload: ToolStartPayload }
  | { readonly type: "tool.progress"; readonly payload: GatewayToolProgressPayload }
  | { readonly type: "tool.complete"; readonly payload: ToolCompletePayload }
  | { readonly type: "tool.generating"; readonly payload: ToolGeneratingPayload };

const CONTEXT_CHARACTERS = 80;
/** Longer results are not looked at for JSON. */
const PARSED_CHARACTERS = 65_536;

/** What a host is told of an event of a tool call; undefined for other events. */
export function toolPayload({ type, data }: JournalEvent): ToolTold | undefined {
  const about = { tool_id: String(data["tool_call_id"]), name: String(data["tool"]) };
  switch (type) {
    case "tool.started": {
      const args = data["arguments"];
      const context = oneLine(String(data["preview"] ?? ""));
      return { type: "tool.start", payload: { ...about, context, ...(args === undefined ? {} : { args }) } };
    }
    case "tool.progress":
      return { type: "tool.progress", payload: { ...about, preview: String(data["delta"]) } };
    case "tool.completed":
      return { type: "tool.complete", payload: { ...about, ...completed(data) } };
    case "tool.requested":
      return { type: "tool.generating", payload: about };
    default:
      return undefined;
  }
}

/** On one line, at most 80 characters, and never half of one. */
export function oneLine(text: string): string {
  return shorten(headOf(text, 1_000).replace(/\s+/g, " ").trim(), CONTEXT_CHARACTERS);
}

/** The diffs of all files as one text. */
export function diffOf(changes: readonly FileChange[]): string {
  return changes.flatMap(({ diff }) => (diff === "" ? [] : [diff])).join("\n");
}

function completed(data: JournalEvent["data"]): Omit<ToolCompletePayload, "tool_id" | "name"> {
  const result = String(data["result"] ?? "");
  const { preview, todos, code } = data;
  const diff = diffOf((data["changes"] as readonly FileChange[] | undefined) ?? []);
  return {
    duration_s: Number(data["duration"]),
    result: parsed(result),
    ...(typeof preview === "string" ? { summary: preview } : {}),
    ...(data["error"] === true
      ? { error: typeof preview === "string" ? preview : headOf(result, 1_000) }
      : {}),
    ...(code === undefined ? {} : { code: code as ToolEndCode }),
    ...(diff === "" ? {} : { inline_diff: diff }),
    ...(Array.isArray(todos) ? { todos: todos as Todo[] } : {}),
  };
}

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text) || text.length > PARSED_CHARACTERS) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // text that begins like JSON
  }
}
