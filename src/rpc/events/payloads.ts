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
import { redact } from "../../base/observe.ts";
import { headOf, shorten, toOneLine } from "../../base/text.ts";

/** Returns the turn id of a run. Hosts call a run a turn. */
export function turnIdOf(runId: string): string {
  return `turn_${runId.replace(/^run_/, "")}`;
}

/** Returns the run id of a turn. Any other text names no run. */
export function runIdOf(turnId: string): string {
  return `run_${turnId.replace(/^(?:turn|run)_/, "")}`;
}

/** Returns the task id of a background prompt. */
export function taskIdOf(runId: string): string {
  return `bg_${runId.replace(/^run_/, "")}`;
}

/** Returns usage under the gateway's names. Missing numbers are zero. */
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

/** Returns how a turn ended. `usage` is the turn's own. */
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
    // A turn whose process ended did not itself fail.
    status: type === "run.interrupted" ? "interrupted" : "error",
    ...about,
    ...partial,
    error: error.message,
    error_info: { code: error.code, retryable: isRetryable(error.code), layer: layerOf(error.code) },
  };
}

const STOP_WARNINGS: Readonly<Record<string, string>> = {
  length: "The answer was cut at its maximum length.",
  max_steps: "The turn ended at its maximum number of steps (agent.max_steps).",
  refusal: "The model refused to answer.",
};

function isRetryable(code: string): boolean {
  const rows: Readonly<Record<string, ErrorRow>> = errorTable;
  return rows[code]?.retryable ?? false;
}

function layerOf(code: string): string {
  return /provider|model|context/.test(code) ? "provider" : "agent";
}

type ToolEvent =
  | { readonly type: "tool.start"; readonly payload: ToolStartPayload }
  | { readonly type: "tool.progress"; readonly payload: GatewayToolProgressPayload }
  | { readonly type: "tool.complete"; readonly payload: ToolCompletePayload }
  | { readonly type: "tool.generating"; readonly payload: ToolGeneratingPayload };

const CONTEXT_CHARACTERS = 80;
/** Longer arguments are not repeated at the end of a call. */
const MAX_ARGS_CHARACTERS = 4_096;
/** Longer results are not parsed as JSON. */
const PARSED_CHARACTERS = 65_536;

/** Returns the event of a tool call; undefined for other entries. */
export function toolPayload({ type, data }: JournalEvent, call: StartedCall): ToolEvent | undefined {
  const about = { tool_id: String(data["tool_call_id"]), name: String(data["tool"]) };
  switch (type) {
    case "tool.started": {
      const args = data["arguments"];
      return {
        type: "tool.start",
        payload: { ...about, context: call.context, ...(args === undefined ? {} : { args }) },
      };
    }
    case "tool.progress":
      return {
        type: "tool.progress",
        payload: { ...about, ...progress(String(data["delta"]), call.context) },
      };
    case "tool.completed":
      return {
        type: "tool.complete",
        payload: { ...about, ...(call.args === undefined ? {} : { args: call.args }), ...completed(data) },
      };
    case "tool.generating":
      return { type: "tool.generating", payload: { name: String(data["tool"]) } };
    case "tool.requested":
      return { type: "tool.generating", payload: about };
    default:
      return undefined;
  }
}

/** Hosts show `preview` in place of the call's context, so it begins with the context. */
function progress(output: string, context: string): { readonly preview: string; readonly output: string } {
  const line = contextLine(output.trimEnd().split("\n").at(-1) ?? "");
  return { preview: [context, line].filter((part) => part !== "").join(" · "), output };
}

/** What the events of a call repeat from its start. */
export interface StartedCall {
  readonly context: string;
  /** Absent when they are large. */
  readonly args?: unknown;
}

/** Returns what a started call is about. */
export function startedCall({ data }: JournalEvent): StartedCall {
  const args = data["arguments"];
  const context = callContext(args) || contextLine(String(data["preview"] ?? ""));
  const isSmall = args !== undefined && JSON.stringify(args).length <= MAX_ARGS_CHARACTERS;
  return { context, ...(isSmall ? { args } : {}) };
}

/** Returns what a call is about: its command, path or other leading text; "" without any. */
export function callContext(input: unknown): string {
  return contextLine(redact(headOf(leadingText(input, 0), 1_000)));
}

const LEADING = ["command", "path", "query", "url", "question", "goal"];
const MAX_DEPTH = 4;

function leadingText(value: unknown, depth: number): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return "";
  const of = value as Readonly<Record<string, unknown>>;
  const named = LEADING.map((name) => of[name]);
  const texts = [...named, ...Object.values(of)].filter((each) => typeof each === "string" && each !== "");
  if (typeof texts[0] === "string") return texts[0];
  for (const each of Object.values(of)) {
    const text = leadingText(each, depth + 1);
    if (text !== "") return text;
  }
  return "";
}

/** Returns a text on one line of at most 80 characters. */
export function contextLine(text: string): string {
  return shorten(toOneLine(headOf(text, 1_000)), CONTEXT_CHARACTERS);
}

/** Joins the diffs of all files. */
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
    return text; // The text only starts like JSON.
  }
}

type Data = JournalEvent["data"];

/** Returns the report of a sub-agent from its start event. Without that event, most fields are unknown. */
export function subagentReport(data: Data): SubagentReport {
  const { parent_id: parent, child_session_id: child, model, task_index: index, task_count: count } = data;
  const { toolsets } = data;
  return {
    subagent_id: String(data["subagent_id"]),
    parent_id: typeof parent === "string" ? parent : null,
    depth: Number(data["depth"] ?? 1),
    goal: String(data["goal"] ?? ""),
    status: "running",
    ...(typeof index === "number" ? { task_index: index } : {}),
    ...(typeof count === "number" ? { task_count: count } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(Array.isArray(toolsets) ? { toolsets: toolsets as string[] } : {}),
    ...(typeof child === "string" ? { child_session_id: child } : {}),
  };
}

/** Returns what an event changes in the report. */
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
    ...(usage ? subagentUsage(usage) : {}),
  };
}

function subagentUsage(usage: RunUsage): Partial<SubagentReport> {
  return {
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    reasoning_tokens: usage.reasoning_tokens,
    api_calls: usage.model_calls,
    ...(usage.cost_usd === null ? {} : { cost_usd: usage.cost_usd }),
  };
}

const STATUS: Readonly<Record<string, SubagentReport["status"]>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "interrupted",
  interrupted: "interrupted",
};

/**
 * Returns a status line for entries without an event of their own; undefined for entries that mean nothing to
 * users.
 */
export function statusLine(
  type: string,
  data: JournalEvent["data"],
): { kind: string; text: string } | undefined {
  switch (type) {
    case "run.steer_accepted":
      return { kind: "steer", text: "The agent gets this text at its next step." };
    case "run.steered":
      return { kind: "steer", text: "The agent has received the text." };
    case "run.stopping":
      return { kind: "status", text: "Stopping." };
    case "compression.started":
      return { kind: "compressing", text: "Compressing the conversation." };
    case "compression.completed":
      return { kind: "status", text: compressed(data) };
    case "run.notice":
      return { kind: "warn", text: String(data["message"] ?? "") };
    case "session.undone":
      return { kind: "undone", text: `${Number(data["removed"])} messages were removed.` };
    default:
      return undefined;
  }
}

function compressed(data: JournalEvent["data"]): string {
  if (data["status"] !== "compressed") return String(data["note"] ?? "The conversation is unchanged.");
  return `Compressed ${Number(data["before_messages"])} messages to ${Number(data["after_messages"])}.`;
}
