/** Stored messages as the items of a conversation. Pure. */
import type { ItemAttachment, ToolItem, TranscriptItem } from "../../client/conversation/state.ts";
import type { SessionMessage } from "../../client/http.ts";

const MAX_CONTEXT = 200;
const STATUS: Readonly<Record<string, ToolItem["status"]>> = {
  ok: "done",
  error: "failed",
  denied: "failed",
  aborted: "cut",
  pending: "cut",
};

/** Returns the items of messages, oldest first: each call of a tool is shown at its result. */
export function itemsOf(messages: readonly SessionMessage[]): readonly TranscriptItem[] {
  const calls = new Map(
    messages.flatMap(({ tool_calls: made }) => made.map((call) => [call.id, call.arguments])),
  );
  return messages.flatMap((message) => itemsOfOne(message, calls));
}

function itemsOfOne(message: SessionMessage, calls: ReadonlyMap<string, string>): TranscriptItem[] {
  const id = `msg_${message.sequence}`;
  const text = message.text ?? "";
  if (message.role === "tool") return [toolOf(message, id, calls.get(message.tool_call_id ?? "") ?? "")];
  if (message.role === "user" && !message.is_summary) {
    const attachments = message.attachments.map(({ kind, name, bytes }, index): ItemAttachment => ({
      kind,
      name: name ?? kind,
      bytes,
      of: { messageId: id, index },
    }));
    return [{ kind: "user", id, text, ...(attachments.length > 0 ? { attachments } : {}) }];
  }
  if (message.role !== "assistant") return text === "" ? [] : [{ kind: "notice", id, level: "info", text }];
  const { reasoning } = message;
  return [
    ...(reasoning === null || reasoning === ""
      ? []
      : [{ kind: "reasoning" as const, id: `${id}-reasoning`, text: reasoning, isStreaming: false }]),
    ...(text === "" ? [] : [{ kind: "assistant" as const, id, text, status: "complete" as const }]),
  ];
}

function toolOf(
  { tool, text, status, duration_seconds: seconds }: SessionMessage,
  id: string,
  call: string,
): ToolItem {
  const output = (text ?? "").trimEnd();
  const shown = STATUS[status ?? "ok"] ?? "done";
  return {
    kind: "tool",
    id,
    name: tool ?? "tool",
    context: contextOf(call),
    status: shown,
    progress: "",
    startedAtMs: 0,
    ...(output === "" ? {} : { output }),
    ...(shown === "failed" && output !== "" ? { error: output } : {}),
    ...(seconds === null ? {} : { durationSeconds: seconds }),
  };
}

/** Returns the first text among the arguments of a call: its command, path or question. */
function contextOf(call: string): string {
  try {
    const values: unknown[] = Object.values(JSON.parse(call) as object);
    const first = values.find((value) => typeof value === "string");
    return (first ?? call).replaceAll(/\s+/g, " ").slice(0, MAX_CONTEXT);
  } catch {
    // Not JSON: shown as it is.
    return call.slice(0, MAX_CONTEXT);
  }
}
