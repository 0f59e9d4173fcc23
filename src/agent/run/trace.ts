/** The steps of a run on a timeline, from its events. Pure. */
import type { RunStep, RunTrace, RunUsage } from "../../../generated/http/client/types.gen.ts";
import { redact, redactValue } from "../../base/observe.ts";
import { tailOf } from "../../base/text.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { RunStatus, RunView } from "./run.ts";

/** An event that says when a step begins or ends. */
export type TraceEvent = Pick<JournalEvent, "type" | "atMs" | "data">;

/** The types of these events. Text and progress are many, and say nothing about time that others do not. */
export const TRACE_EVENTS: readonly string[] = [
  "run.started",
  "message.started",
  "reasoning.completed",
  "tool.generating",
  "tool.started",
  "tool.completed",
  "usage.updated",
  "subagent.start",
  "subagent.complete",
  "compression.started",
  "compression.completed",
  ...["approval", "clarify", "sudo", "secret"].flatMap((kind) => [
    `${kind}.request`,
    `${kind}.responded`,
    `${kind}.expired`,
  ]),
];

export interface TraceOptions {
  readonly events: readonly TraceEvent[];
  /** True: events before the first, or behind the last, are missing. */
  readonly isTruncated: boolean;
  /** With the input and the result of tool calls. */
  readonly hasContent: boolean;
}

const MAX_RESULT = 8_192;

type Step = {
  id: string;
  kind: RunStep["kind"];
  name: string;
  parentId: string | null;
  status: RunStep["status"];
  startMs: number;
  endMs?: number;
  firstMs?: number;
  preview?: string;
  arguments?: unknown;
  result?: string;
  runId?: string;
  usage?: RunStep["usage"];
};

/** Returns the trace of a run. */
export function traceOf(run: RunView, options: TraceOptions): RunTrace {
  const steps = new Trace(run, options.hasContent).steps(options.events);
  return {
    object: "agent.run.trace",
    run_id: run.id,
    status: run.status as RunStatus,
    started_at: run.created_at / 1000,
    ended_at: run.ended_at === null ? null : run.ended_at / 1000,
    duration_seconds: run.ended_at === null ? null : seconds(run.created_at, run.ended_at),
    is_truncated: options.isTruncated,
    steps: withoutGaps(steps, run).map(toStep),
  };
}

class Trace {
  readonly #run: RunView;
  readonly #hasContent: boolean;
  readonly #done: Step[] = [];
  /** What has begun and not ended, by id. */
  readonly #open = new Map<string, Step>();
  /** Tool calls of the present model call. */
  #tools: Step[] = [];
  #model: Step;
  #calls = 0;
  #spent: Partial<RunUsage> = {};

  constructor(run: RunView, hasContent: boolean) {
    this.#run = run;
    this.#hasContent = hasContent;
    this.#model = this.#nextModel(run.started_at ?? run.created_at);
  }

  steps(events: readonly TraceEvent[]): readonly Step[] {
    const { created_at: createdMs, started_at: startedMs } = this.#run;
    const endMs = this.#run.ended_at ?? undefined;
    const queuedMs = startedMs ?? endMs;
    if (queuedMs !== createdMs) {
      const status = queuedMs === undefined ? "running" : startedMs === null ? "aborted" : "ok";
      this.#done.push({ ...step("queue", "queue", "queue", createdMs), status, ...endOf(queuedMs) });
    }
    for (const event of events) this.#take(event);
    if (startedMs !== null) this.#close(endMs);
    for (const open of this.#open.values()) {
      if (endMs === undefined) this.#done.push(open);
      else this.#done.push({ ...open, endMs, status: "aborted" });
    }
    return this.#done;
  }

  #take({ type, atMs, data }: TraceEvent): void {
    const [kind = "", end] = type.split(".");
    switch (type) {
      case "message.started":
      case "reasoning.completed":
      case "tool.generating":
        this.#model.firstMs ??= atMs;
        return;
      case "tool.started":
        return this.#startTool(atMs, data);
      case "tool.completed":
        return this.#endTool(atMs, data);
      case "usage.updated":
        return this.#endModel(atMs, data["usage"] as RunUsage);
      case "subagent.start":
        this.#begin("subagent", String(data["subagent_id"]), atMs, {
          name: String(data["model"]),
          parentId: textOrNull(data["tool_call_id"]),
          preview: String(data["goal"]),
          runId: String(data["subagent_id"]),
        });
        return;
      case "subagent.complete":
        return this.#finish(String(data["subagent_id"]), atMs, outcomes[String(data["status"])] ?? "error");
      case "compression.started":
        return this.#startCompression(atMs, data);
      case "compression.completed":
        this.#finish("compression", atMs, data["status"] === "failed" ? "error" : "ok");
        this.#model = this.#nextModel(atMs);
        return;
      default:
        if (end === "request") this.#ask(kind, atMs, data);
        else if (end === "responded" || end === "expired")
          this.#finish(
            String(data["request_id"]),
            atMs,
            answers[end === "expired" ? end : String(data["choice"])] ?? "ok",
          );
    }
  }

  #startTool(atMs: number, data: TraceEvent["data"]): void {
    this.#model.firstMs ??= atMs;
    const tool: Step = {
      ...step("tool", String(data["tool_call_id"]), String(data["tool"]), atMs),
      parentId: this.#model.id,
      preview: textOrNull(data["preview"]) ?? "",
      ...(this.#hasContent ? { arguments: redactValue(data["arguments"]) ?? null } : {}),
    };
    this.#tools.push(tool);
    this.#open.set(tool.id, tool);
  }

  #endTool(atMs: number, data: TraceEvent["data"]): void {
    const tool = this.#open.get(String(data["tool_call_id"]));
    if (!tool) return;
    // Both events may have been written together, long after the call began.
    const startMs = atMs - Math.round(Number(data["duration"] ?? 0) * 1000);
    tool.startMs = Math.max(this.#model.startMs, Math.min(tool.startMs, startMs));
    const result = data["result"] ?? data["preview"];
    if (this.#hasContent && typeof result === "string") tool.result = redact(result);
    this.#finish(tool.id, atMs, (data["status"] as Step["status"] | undefined) ?? "ok");
  }

  /** A model call ends where its first tool call begins, and the next one begins where the last tool call ends. */
  #endModel(atMs: number, usage: RunUsage): void {
    const toolEnds = this.#tools.map(({ endMs = atMs }) => endMs);
    const nextMs = toolEnds.length === 0 ? atMs : Math.max(...toolEnds);
    this.#pushModel(Math.min(atMs, ...this.#tools.map(({ startMs }) => startMs)), usage);
    this.#model = this.#nextModel(nextMs);
  }

  /** The last model call has no event of its own: the run's usage says what it used. */
  #close(endMs: number | undefined): void {
    const usage = this.#run.usage === null ? undefined : (JSON.parse(this.#run.usage) as RunUsage);
    const isUsed = usage !== undefined && usage.model_calls > (this.#spent.model_calls ?? 0);
    const isEmpty = this.#model.firstMs === undefined && !isUsed;
    if (isEmpty && endMs !== undefined && this.#run.status === "completed") return;
    const last = Math.min(endMs ?? Infinity, ...this.#tools.map(({ startMs }) => startMs));
    const isCut = endMs !== undefined && this.#tools.length === 0;
    const status = isCut ? (outcomes[this.#run.status] ?? "ok") : "ok";
    this.#pushModel(Number.isFinite(last) ? last : undefined, usage, status);
  }

  #pushModel(endMs: number | undefined, usage: RunUsage | undefined, status: Step["status"] = "ok"): void {
    const model = this.#model;
    this.#done.push({
      ...model,
      ...endOf(endMs),
      name: usage ? modelOf(usage, this.#spent, model.name) : model.name,
      status: endMs === undefined ? "running" : status,
      ...(usage ? { usage: difference(usage, this.#spent) } : {}),
    });
    this.#done.push(...this.#tools.filter(({ id }) => !this.#open.has(id)));
    this.#tools = this.#tools.filter(({ id }) => this.#open.has(id));
    if (usage) this.#spent = usage;
  }

  #startCompression(atMs: number, data: TraceEvent["data"]): void {
    // A context that is full is found out by a call that fails.
    if (data["reason"] === "overflow") this.#done.push({ ...this.#model, endMs: atMs, status: "error" });
    this.#begin("compression", "compression", atMs, { name: String(data["reason"]) });
  }

  #ask(kind: string, atMs: number, data: TraceEvent["data"]): void {
    const preview = textOrNull(data["title"]) ?? textOrNull(data["prompt"]);
    this.#begin("question", String(data["request_id"]), atMs, {
      name: kind,
      parentId: textOrNull(data["tool_call_id"]),
      ...(preview === null ? {} : { preview }),
    });
  }

  #begin(kind: Step["kind"], id: string, atMs: number, more: Partial<Step>): void {
    this.#open.set(id, { ...step(kind, id, kind, atMs), ...more });
  }

  /** Tool calls are listed with their model call. */
  #finish(id: string, endMs: number, status: Step["status"]): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    Object.assign(open, { endMs, status });
    if (open.kind === "compression") open.id = `compression-${this.#calls}`;
    if (open.kind !== "tool") this.#done.push(open);
  }

  #nextModel(startMs: number): Step {
    return step("model", `model-${++this.#calls}`, this.#run.model, startMs);
  }
}

const outcomes: Readonly<Record<string, Step["status"]>> = {
  completed: "ok",
  failed: "error",
  cancelled: "aborted",
  interrupted: "aborted",
};
const answers: Readonly<Record<string, Step["status"]>> = { deny: "denied", expired: "expired" };

function step(kind: Step["kind"], id: string, name: string, startMs: number): Step {
  return { id, kind, name, parentId: null, status: "running", startMs };
}

const endOf = (endMs: number | undefined) => (endMs === undefined ? {} : { endMs });
const textOrNull = (value: unknown): string | null => (typeof value === "string" ? value : null);
/** Exact to the microsecond, without the noise of binary fractions. */
const seconds = (fromMs: number, toMs: number): number =>
  Math.max(0, Math.round((toMs - fromMs) * 1000) / 1e6);

/** Fills the time that belongs to no step, so that the steps add up to the run. */
function withoutGaps(steps: readonly Step[], { created_at: createdMs, ended_at: endedMs }: RunView): Step[] {
  const sorted = steps.toSorted((a, b) => a.startMs - b.startMs || depthOf(a) - depthOf(b));
  const all: Step[] = [];
  let coveredMs = createdMs;
  let gaps = 0;
  const fill = (toMs: number) => {
    if (toMs <= coveredMs) return;
    all.push({ ...step("other", `other-${++gaps}`, "other", coveredMs), endMs: toMs, status: "ok" });
  };
  for (const each of sorted) {
    const isCover = each.kind !== "question" && each.kind !== "subagent";
    if (isCover) fill(each.startMs);
    all.push(each);
    if (isCover) coveredMs = Math.max(coveredMs, each.endMs ?? Infinity);
  }
  if (endedMs !== null) fill(endedMs);
  return all;
}

/** Of steps of the same millisecond, a tool call comes after its model call, and what belongs to it after that. */
function depthOf({ kind }: Step): number {
  if (kind === "question" || kind === "subagent") return 2;
  return kind === "tool" ? 1 : 0;
}

function toStep(from: Step): RunStep {
  const { startMs, endMs, firstMs, result, usage = null } = from;
  const shown = result === undefined ? null : tailOf(result, MAX_RESULT);
  return {
    id: from.id,
    kind: from.kind,
    name: from.name,
    parent_id: from.parentId,
    status: from.status,
    started_at: startMs / 1000,
    duration_seconds: endMs === undefined ? null : seconds(startMs, endMs),
    first_output_seconds:
      firstMs === undefined ? null : seconds(startMs, Math.min(firstMs, endMs ?? firstMs)),
    preview: from.preview === undefined ? null : redact(from.preview),
    arguments: from.arguments ?? null,
    result: shown,
    omitted_characters: (result?.length ?? 0) - (shown?.length ?? 0),
    run_id: from.runId ?? null,
    usage,
  };
}

const COUNTERS = [
  "input_tokens",
  "cached_input_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "model_calls",
] as const;

function difference(now: RunUsage, before: Partial<RunUsage>): NonNullable<RunStep["usage"]> {
  const counters = Object.fromEntries(
    COUNTERS.map((name) => [name, Math.max(0, now[name] - (before[name] ?? 0))]),
  ) as Record<(typeof COUNTERS)[number], number>;
  const cost =
    now.cost_usd === null
      ? null
      : Math.max(0, Math.round((now.cost_usd - (before.cost_usd ?? 0)) * 1e9) / 1e9);
  return { ...counters, cost_usd: cost };
}

/** Returns the model that a step called: a fallback is the one whose calls have grown. */
function modelOf(now: RunUsage, before: Partial<RunUsage>, usual: string): string {
  const callsOf = ({ by_model: models = [] }: Partial<RunUsage>, model: string) =>
    models.find((each) => each.model === model)?.model_calls ?? 0;
  const grown = (now.by_model ?? []).filter(({ model }) => callsOf(now, model) > callsOf(before, model));
  const [only, ...others] = grown;
  return only && others.length === 0 ? only.model : usual;
}
