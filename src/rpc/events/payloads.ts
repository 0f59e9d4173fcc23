import type { RunUsage, FileChange, Todo, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import type {
  GatewayUsage,
  MessageCompletePayload,
  GatewayToolProgressPayload,
  ToolCompletePayload,
  ToolGeneratingPayload,
  ToolStartPayload,
  SubagentReport,
} from "../../../generated/gateway/types/types.gen.ts";
import { errorTable, type ErrorRow } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { headOf } from "../../base/text.ts";

/** A turn is a run; hosts know it by a name of their own form. */
export function turnIdOf(runId: string): string {
  return `turn_${runId.replace(/^run_/, "")}`;
}

/** The run that a turn is. Whatever else is given names no run. */
export function runIdOf(turnId: string): string {
  return `run_${turnId.replace(/^(?:turn|run)_/, "")}`;
}

/** A background prompt, as hosts know it. */
export function taskIdOf(runId: string): string {
  return `bg_${runId.replace(/^run_/, "")}`;
}

/** Figures in the gateway's names; absent figures are zero. */
export function usageOf(usage: unknown, model: string): GatewayUsage {
  const of = (usage ?? {}) as Partial<RunUsage>;
  const input = of.input_tokens ?? 0;
  const output = of.output_tokens ?? 0;
  return {
    model,
    input,
    output,
    cache_read: of.cached_input_tokens ?? 0,
    cache_write: of.cache_write_tokens ?? 0,
    reasoning: of.reasoning_tokens ?? 0,
    prompt: input,
    completion: output,
    total: of.total_tokens ?? input + output,
    calls: of.model_calls ?? 0,
    ...(typeof of.cost_usd === "number"
      ? { cost_usd: of.cost_usd, cost_status: "estimated" as const }
      : { cost_status: "unknown" as const }),
  };
}

/** How a turn ended. `usage` is the turn's own; the `session.info` that follows has the session's. */
export function completePayload(
  entry: JournalEvent,
  turn: { readonly model: string; readonly output: string | undefined },
): MessageCompletePayload {
  const { type, data } = entry;
  const steer = data["pending_steer"] as string[] | undefined;
  const about = {
    usage: usageOf(data["usage"], turn.model),
    ...(steer && steer.length > 0 ? { undelivered_steer: steer } : {}),
  };
  if (type === "run.completed") {
    const warning = STOP_WARNINGS[String(data["stop"])];
    const output = typeof data["output"] === "string" ? data["output"] : "";
    return { text: output, status: "complete", ...about, ...(warning === undefined ? {} : { warning }) };
  }
  const said = turn.output ?? "";
  const partial = said === "" ? {} : { partial: true };
  if (type === "run.cancelled") return { text: said, status: "interrupted", ...about, ...partial };
  const error = data["error"] as { readonly code: string; readonly message: string };
  return {
    text: said,
    // A process that ended under a turn did not fail at it.
    status: type === "run.interrupted" ? "interrupted" : "error",
    ...about,
    ...partial,
    error: error.message,
    error_info: { code: error.code, retryable: isRetryable(error.code), layer: layerOf(error.code) },
  };
}

const STOP_WARNINGS: Readonly<Record<string, string>> = {
  length: "The answer was cut: it reached the greatest length.",
  max_steps: "The turn ended because it took the greatest number of steps (agent.max_steps).",
  refusal: "The model refused.",
};

function isRetryable(code: string): boolean {
  const rows: Readonly<Record<string, ErrorRow>> = errorTable;
  return rows[code]?.retryable ?? false;
}

function layerOf(code: string): string {
  return /provider|model|context/.test(code) ? "provider" : "agent";
}

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
  const line = Array.from(headOf(text, 1_000).replace(/\s+/g, " ").trim());
  return line.length <= CONTEXT_CHARACTERS
    ? line.join("")
    : `${line.slice(0, CONTEXT_CHARACTERS - 1).join("")}…`;
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
