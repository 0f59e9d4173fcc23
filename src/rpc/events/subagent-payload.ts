import type { SubagentReport } from "../../../generated/gateway/types/types.gen.ts";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

type Data = JournalEvent["data"];

/** A sub-agent as its start tells of it; of one whose start is no longer kept little is known. */
export function subagentReport(data: Data): SubagentReport {
  const { parent_id: parent, child_session_id: child, model, task_index: index, task_count: count } = data;
  return {
    subagent_id: String(data["subagent_id"]),
    parent_id: typeof parent === "string" ? parent : null,
    depth: Number(data["depth"] ?? 1),
    goal: String(data["goal"] ?? ""),
    status: "running",
    ...(typeof index === "number" ? { task_index: index } : {}),
    ...(typeof count === "number" ? { task_count: count } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof child === "string" ? { child_session_id: child } : {}),
  };
}

/** What an event adds to the report. */
export function subagentChange(type: string, data: Data): Partial<SubagentReport> {
  if (type === "subagent.tool") {
    const { preview } = data;
    return {
      tool_name: String(data["tool"]),
      tool_count: Number(data["tool_count"]),
      ...(typeof preview === "string" ? { tool_preview: preview } : {}),
    };
  }
  if (type === "subagent.spawn_requested") return { status: "queued" };
  if (type === "subagent.progress" || type === "subagent.thinking") return { text: String(data["text"]) };
  if (type !== "subagent.complete") return {};
  const usage = data["usage"] as RunUsage | undefined;
  return {
    status: STATUS[String(data["status"])] ?? "error",
    summary: String(data["summary"] ?? ""),
    duration_seconds: Number(data["duration_seconds"]),
    ...(usage ? { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens } : {}),
  };
}

const STATUS: Readonly<Record<string, SubagentReport["status"]>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "interrupted",
  interrupted: "interrupted",
};
