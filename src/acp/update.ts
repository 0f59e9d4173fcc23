/** What a client is told of the journal of a turn. Pure. */
import type {
  SessionUpdate,
  ToolCallContent,
  ToolCallLocation,
  ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import type { FileChange, Todo } from "../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../store/journal.ts";

const MAX_TITLE_CHARACTERS = 160;
const MAX_TEXT_CHARACTERS = 65_536;

/** The updates that an event of a run gives; none for those that an editor does not show. */
export function toUpdates({ type, data }: JournalEvent): readonly SessionUpdate[] {
  switch (type) {
    case "message.delta":
      return [
        {
          sessionUpdate: "agent_message_chunk",
          messageId: text(data["message_id"]),
          content: { type: "text", text: text(data["delta"]) },
        },
      ];
    case "reasoning.delta":
      return [{ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: text(data["delta"]) } }];
    case "tool.started":
      return [started(data)];
    case "tool.completed":
      return [completed(data), ...plan(data)];
    default:
      return [];
  }
}

type Data = JournalEvent["data"];

function started(data: Data): SessionUpdate {
  return {
    sessionUpdate: "tool_call",
    toolCallId: text(data["tool_call_id"]),
    title: titleOf(data),
    name: text(data["tool"]),
    kind: (data["kind"] as ToolKind | undefined) ?? "other",
    status: "pending",
    locations: locations(data),
    ...(data["arguments"] === undefined ? {} : { rawInput: data["arguments"] }),
  };
}

function completed(data: Data): SessionUpdate {
  const changes = (data["changes"] as readonly FileChange[] | undefined) ?? [];
  const result = text(data["result"]);
  const content = [...changes.map(diff), ...(result === "" ? [] : [plain(result)])];
  return {
    sessionUpdate: "tool_call_update",
    toolCallId: text(data["tool_call_id"]),
    status: data["status"] === "ok" ? "completed" : "failed",
    content,
  };
}

/** A list of points is sent whole each time; what was given up has no place in it. */
function plan(data: Data): readonly SessionUpdate[] {
  const todos = data["todos"] as readonly Todo[] | undefined;
  if (!todos) return [];
  const entries = todos.flatMap(({ content, status }) =>
    status === "cancelled" ? [] : [{ content, status, priority: "medium" as const }],
  );
  return [{ sessionUpdate: "plan", entries }];
}

function diff(change: FileChange): ToolCallContent {
  const { path, old_text: oldText, new_text: newText } = change;
  if (newText === undefined && oldText === undefined) return plain(change.diff);
  return {
    type: "diff",
    path,
    oldText: oldText ?? null,
    newText: newText ?? "",
    ...(newText === null ? { _meta: { deleted: true } } : {}),
  };
}

/** Longer texts keep their end, where results stand. */
export function plain(value: string): ToolCallContent {
  const omitted = value.length - MAX_TEXT_CHARACTERS;
  const shown = omitted > 0 ? `${omitted} characters omitted\n${value.slice(-MAX_TEXT_CHARACTERS)}` : value;
  return { type: "content", content: { type: "text", text: shown } };
}

function locations(data: Data): ToolCallLocation[] {
  return ((data["paths"] as readonly string[] | undefined) ?? []).map((path) => ({ path }));
}

function titleOf(data: Data): string {
  const title = text(data["preview"]) || text(data["tool"]);
  const characters = Array.from(title);
  return characters.length <= MAX_TITLE_CHARACTERS
    ? title
    : `${characters.slice(0, MAX_TITLE_CHARACTERS - 1).join("")}…`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
