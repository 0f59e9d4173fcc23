/** What a client is told of the journal of a turn, but for its tool calls. Pure. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Todo } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { ClientOffers } from "../wire/client-capabilities.ts";

type Data = JournalEvent["data"];

const MAX_NOTICE_CHARACTERS = 200;

/** The updates that an event of a run gives; none for those that an editor does not show. */
export function toUpdates(
  { type, runId, data }: Pick<JournalEvent, "type" | "runId" | "data">,
  offers: Pick<ClientOffers, "notices" | "compaction">,
): readonly SessionUpdate[] {
  switch (type) {
    case "message.delta":
      return [{ sessionUpdate: "agent_message_chunk", ...chunk(data) }];
    case "reasoning.delta":
      return [{ sessionUpdate: "agent_thought_chunk", ...chunk(data) }];
    case "tool.completed":
      return data["todos"] === undefined ? [] : [planOf(data["todos"] as readonly Todo[])];
    case "run.notice":
      return offers.notices ? [notice(String(data["message"]))] : [];
    case "compression.started":
    case "compression.completed":
      return compaction(type, `${runId ?? ""}:compaction`, { data, offers });
    default:
      return [];
  }
}

/** A list of points is sent whole each time; what was given up has no place in it. */
export function planOf(todos: readonly Todo[]): SessionUpdate {
  const entries = todos.flatMap(({ content, status }) =>
    status === "cancelled" ? [] : [{ content, status, priority: "medium" as const }],
  );
  return { sessionUpdate: "plan", entries };
}

function chunk({ message_id: messageId, delta }: Data): {
  readonly messageId?: string;
  readonly content: { readonly type: "text"; readonly text: string };
} {
  const content = { type: "text", text: String(delta) } as const;
  return typeof messageId === "string" ? { messageId, content } : { content };
}

function notice(title: string): SessionUpdate {
  return { sessionUpdate: "notice", severity: "info", title: title.slice(0, MAX_NOTICE_CHARACTERS) };
}

/** At most one compaction of a run is at work at a time; a later one goes on under the same id. */
function compaction(
  type: string,
  compactionId: string,
  { data, offers }: { readonly data: Data; readonly offers: Pick<ClientOffers, "notices" | "compaction"> },
): readonly SessionUpdate[] {
  const { status, note, before_tokens: before, after_tokens: after } = data;
  const isOver = type === "compression.completed";
  if (offers.compaction) {
    const reached = !isOver ? "in_progress" : status === "failed" ? "failed" : "completed";
    const error = reached === "failed" ? { error: String(note ?? "The conversation stays as it is.") } : {};
    return [{ sessionUpdate: "compaction_update", compactionId, status: reached, ...error }];
  }
  if (!offers.notices) return [];
  if (!isOver) return [notice("The conversation is being compressed.")];
  if (status !== "compressed") return [notice(`Nothing was compressed. ${String(note ?? "")}`.trim())];
  return [notice(`The conversation was compressed from about ${before} to ${after} tokens.`)];
}
