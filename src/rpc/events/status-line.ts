import type { JournalEvent } from "../../store/journal/journal.ts";

/** A line about entries that have no event of their own. Undefined for those that say nothing to people. */
export function statusLine(
  type: string,
  data: JournalEvent["data"],
): { kind: string; text: string } | undefined {
  switch (type) {
    case "run.steer_accepted":
      return { kind: "steer", text: "The agent gets this at its next step." };
    case "run.steered":
      return { kind: "steer", text: "The agent has got what you said." };
    case "run.stopping":
      return { kind: "status", text: "Stopping." };
    case "compression.started":
      return { kind: "compressing", text: "Compressing the conversation." };
    case "compression.completed":
      return { kind: "status", text: compressed(data) };
    case "run.notice":
      return { kind: "warn", text: String(data["message"] ?? "") };
    case "session.undone":
      return { kind: "undone", text: `${Number(data["removed"])} messages were taken back.` };
    default:
      return undefined;
  }
}

function compressed(data: JournalEvent["data"]): string {
  if (data["status"] !== "compressed") return String(data["note"] ?? "The conversation stays as it is.");
  return `Compressed: ${Number(data["before_messages"])} messages are ${Number(data["after_messages"])} now.`;
}
