import type { Run, RunUsage } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { columnsOf } from "../../store/schema/columns.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { QuestionRow, RunRow, SessionRow } from "../../store/schema/tables.ts";
import type { ModelSettings, ToolChoice, ToolSpec, Usage } from "../engine.ts";
import { type Message, textOf } from "../message.ts";
import { toApprovalRequest } from "../question/question.ts";
import { nameOfId } from "../session/session.ts";
import type { RunSlot } from "./concurrency.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { isFinalEvent } from "./event.ts";

export type RunStatus = Run["status"];
export type FinalStatus = Extract<RunStatus, "completed" | "failed" | "cancelled" | "interrupted">;
export type RunKind = Run["kind"];

/** What a run was asked with. Stored whole, so that any process can take it up. */
export interface RunInput {
  /** Messages to add to the transcript when the run starts, the prompt last. */
  readonly prompt: readonly Message[];
  /** Instructions of the request, after the configured ones. */
  readonly instructions?: string;
  readonly settings: ModelSettings;
  /** Narrows the configured toolsets; undefined leaves them. */
  readonly toolsets?: readonly string[];
  /** Whether anybody can answer a question of this run; if not, what needs leave is denied at once. */
  readonly answerable: boolean;
  /** Set where approvals can be answered and other questions cannot. */
  readonly onlyApprovals?: true;
  /** Tools of the client: a call of one ends the run. They take the place of the server's tools of the same name. */
  readonly clientTools?: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  /** Instead of the configured one. */
  readonly timeoutMs?: number;
  /** A run in which nothing happens for so long is stopped, and so are its sub-agents; 0, or absent: never. */
  readonly inactivityMs?: number;
  /** True when nobody's leaving ends the run; one that waits for leave then goes on after a restart, too. */
  readonly isDetached?: true;
  /** True: the run starts again when its process is gone before the run called a tool; else it ends as interrupted. */
  readonly startsAgain?: true;
  /** W3C trace context of the request, so that the run is part of its trace. */
  readonly traceparent?: string;
  /** Set for a sub-agent. */
  readonly family?: RunFamily;
  /** Instead of the configured figures. */
  readonly maxSteps?: number;
  readonly tokenBudget?: number;
  /** Of a background prompt: the session that is told of its end. */
  readonly notifySessionId?: string;
  /** Of a compression: what the summary is to keep above all. */
  readonly focus?: string;
  /** Set where the run waits, recorded, while too many are at work; else it is refused then. */
  readonly slot?: RunSlot;
}

/** Where a sub-agent stands among the runs. Questions are asked, and leave is remembered, at the top of its family. */
export interface RunFamily {
  readonly parentRunId: string;
  /** 1 for a sub-agent of a run that is none. */
  readonly depth: number;
  readonly root: { readonly runId: string; readonly sessionId: string };
}

/** Id of the response that a run of kind response makes. */
export function responseIdOf(runId: string): string {
  return `resp_${runId.slice("run_".length)}`;
}

/** The row of a run that does not exist yet, queued. */
export function newRun(
  id: string,
  session: Pick<SessionRow, "id" | "owner">,
  from: {
    readonly kind: RunKind;
    /** `provider:model`. */
    readonly model: string;
    readonly input: RunInput;
    readonly metadata: Readonly<Record<string, string>>;
    /** As run-webhook.ts records it. */
    readonly webhook?: string | undefined;
    /** Where its answer goes, as run-delivery.ts records it. */
    readonly delivery?: string | undefined;
    readonly nowMs: number;
  },
): RunRow {
  return {
    id,
    session_id: session.id,
    owner: session.owner,
    kind: from.kind,
    parent_id: from.input.family?.parentRunId ?? null,
    status: "queued",
    model: from.model,
    input: JSON.stringify(from.input),
    output: null,
    usage: null,
    error: null,
    metadata: JSON.stringify(from.metadata),
    last_seq: 0,
    last_event: null,
    stop_requested: 0,
    created_at: from.nowMs,
    started_at: null,
    updated_at: from.nowMs,
    ended_at: null,
    response_id: from.kind === "response" ? responseIdOf(id) : null,
    webhook: from.webhook ?? null,
    delivery: from.delivery ?? null,
    required_action: null,
    pending_steer: null,
    input_preview: preview(from.input),
    precedence: 0,
  };
}

/** Where each status may go. Final ones go nowhere: a final status never changes again. */
const NEXT: Readonly<Record<RunStatus, readonly RunStatus[]>> = {
  queued: ["running", "cancelled", "interrupted", "failed"],
  // One whose process is gone may be queued again: run-restart.ts moves it, under its session's lease alone.
  running: ["waiting_for_approval", "stopping", "completed", "failed", "cancelled", "interrupted"],
  waiting_for_approval: ["running", "stopping", "failed", "cancelled", "interrupted"],
  stopping: ["cancelled", "completed", "failed", "interrupted"],
  completed: [],
  failed: [],
  cancelled: [],
  interrupted: [],
};

export function isFinalStatus(status: string): boolean {
  return NEXT[status as RunStatus]?.length === 0;
}

/**
 * Moves a run from one status to another, with further columns, inside `tx`.
 * False when the run is no longer in `from`: somebody else moved it first.
 */
export async function moveRun(
  tx: Tx,
  runId: string,
  step: { readonly from: RunStatus; readonly to: RunStatus },
  set: Partial<RunRow> = {},
): Promise<boolean> {
  if (!NEXT[step.from].includes(step.to) || isFinalStatus(step.to)) {
    throw new Error(`run ${runId} cannot move from ${step.from} to ${step.to}`);
  }
  const columns = { status: step.to, updated_at: tx.nowMs, ...set };
  return (await tx.update("runs", { id: runId, status: step.from }, columns)) === 1;
}

/**
 * Ends a run that has not ended, whatever it was doing, inside `tx`.
 * False when it has: a final status never changes again.
 */
export async function endRun(
  tx: Tx,
  runId: string,
  status: FinalStatus,
  set: Partial<RunRow> = {},
): Promise<boolean> {
  const columns = { status, ended_at: tx.nowMs, updated_at: tx.nowMs, ...set };
  return (await tx.update("runs", { id: runId, ended_at: null }, columns)) === 1;
}

/** How one of many runs ends, see {@link endAllRuns}. */
export interface RunEnding {
  readonly runId: string;
  readonly status: FinalStatus;
  readonly set: Partial<RunRow>;
}

/** As {@link endRun}, for many runs: one statement for all that end alike. Resolves to the ids of those that it ended. */
export async function endAllRuns(tx: Tx, endings: readonly RunEnding[]): Promise<ReadonlySet<string>> {
  const ended = new Set<string>();
  for (const alike of Map.groupBy(endings, ({ status, set }) => JSON.stringify([status, set])).values()) {
    const [first] = alike;
    if (!first) continue;
    const rows = await tx.db
      .updateTable("runs")
      .set({ status: first.status, ended_at: tx.nowMs, updated_at: tx.nowMs, ...first.set })
      .where(
        "id",
        "in",
        alike.map(({ runId }) => runId),
      )
      .where("ended_at", "is", null)
      .returning("id")
      .execute();
    for (const { id } of rows) ended.add(id);
  }
  return ended;
}

/** What people see of a run. What it was asked with may be long, and is left where it is. */
export type RunView = Omit<RunRow, "input" | "webhook" | "delivery">;

export const runViewColumns = columnsOf("runs").filter(
  (name) => name !== "input" && name !== "webhook" && name !== "delivery",
) as readonly (keyof RunView)[];

/** A run of `owner`. ServiceError `run_not_found` for others' runs too. */
export async function findRun(store: Store, runId: string, owner: string): Promise<RunView> {
  const query = store.read.selectFrom("runs").select(runViewColumns).where("id", "=", runId);
  const row = await query.executeTakeFirst();
  if (row?.owner === owner) return row;
  const what = `There is no run ${JSON.stringify(runId)}. Runs are kept for a limited time after they end.`;
  throw new ServiceError("run_not_found", what);
}

/** The run as every surface shows it. */
export function describeRun(row: RunView, sessionKey: string | null, questions: readonly QuestionRow[]): Run {
  const approvals = questions
    .filter((ask) => ask.kind === "approval" && ask.status === "open")
    .map(toApprovalRequest);
  return {
    object: "agent.run",
    run_id: row.id,
    id: row.id,
    kind: row.kind as RunKind,
    status: row.status as RunStatus,
    session_id: nameOfId(row.session_id),
    session_key: sessionKey,
    model: row.model,
    created_at: row.created_at / 1000,
    started_at: seconds(row.started_at),
    updated_at: row.updated_at / 1000,
    ended_at: seconds(row.ended_at),
    last_event: row.last_event,
    last_seq: row.last_seq,
    input_preview: row.input_preview ?? "",
    output: row.output,
    usage: row.usage === null ? null : (JSON.parse(row.usage) as RunUsage),
    error: row.error === null ? null : (JSON.parse(row.error) as Run["error"]),
    approvals,
    approval: approvals[0] ?? null,
    required_action: row.required_action === null ? null : JSON.parse(row.required_action),
    response_id: row.response_id,
    ...(row.pending_steer === null ? {} : { pending_steer: JSON.parse(row.pending_steer) as string[] }),
    metadata: JSON.parse(row.metadata) as Record<string, unknown>,
    stop_requested: row.stop_requested === 1,
  };
}

export function parseInput(row: RunRow): RunInput {
  return JSON.parse(row.input) as RunInput;
}

/** The row of a run at work, beside its parsed `input`: a prompt of megabytes is held once. */
export function withoutPrompt(row: RunRow, input: RunInput): RunRow {
  return { ...row, input: JSON.stringify({ ...input, prompt: [] } satisfies RunInput) };
}

/** Our usage in the wire's names. The cost is null: prices are not known yet. */
export function toRunUsage(usage: Usage): RunUsage {
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    cached_input_tokens: usage.cachedInputTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    cost_usd: null,
    model_calls: usage.modelCalls,
    tool_calls: usage.toolCalls,
  };
}

const PREVIEW_CHARACTERS = 200;

function preview(input: RunInput): string {
  const last = input.prompt.at(-1);
  if (!last) return "";
  const text = textOf(last);
  if (text.length <= PREVIEW_CHARACTERS) return text;
  // Cut between characters, not inside one.
  const characters = Array.from(text.slice(0, PREVIEW_CHARACTERS * 2));
  return characters.slice(0, PREVIEW_CHARACTERS).join("");
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

/** Why a run is stopped: the reason of its abort signal, and what its end is made of. */
export class RunStop extends Error {
  override readonly name = "RunStop";
  /**
   * cancelled: somebody asked. timeout: its time is over. shutdown: the process ends. failure: it cannot be recorded.
   * parked: the process ends, and another takes the run up as it is.
   */
  readonly kind: "cancelled" | "timeout" | "shutdown" | "failure" | "parked";

  constructor(kind: RunStop["kind"], message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}

/** Whether a signal was aborted so that everything stays as it is in the store. */
export function isParked({ reason }: AbortSignal): boolean {
  return reason instanceof RunStop && reason.kind === "parked";
}

/** The run at work in a session. */
export interface RunningTurn {
  readonly runId: string;
  /** Effective `provider:model`. */
  readonly model: string;
  /** Whether it is a turn of the agent, which can be told something, and no compression. */
  readonly isTurn: boolean;
}

/** Whatever process it is at work in. Undefined: none is. */
export async function runningTurn(
  { read }: Pick<Store, "read">,
  sessionId: string,
): Promise<RunningTurn | undefined> {
  const row = await read
    .selectFrom("runs")
    .select(["id", "kind", "model"])
    .where("session_id", "=", sessionId)
    .where("ended_at", "is", null)
    .where("started_at", "is not", null)
    .orderBy("created_at", "desc")
    .limit(1)
    .executeTakeFirst();
  return row && { runId: row.id, model: row.model, isTurn: row.kind !== "compression" };
}

/** The events of a run as they come, up to and with its final one. */
export async function* followRun(
  store: Store,
  runId: string,
  options: { readonly after?: number; readonly signal?: AbortSignal } = {},
): AsyncGenerator<JournalEvent> {
  for await (const group of store.journal.follow({ runId }, options)) {
    for (const event of group) {
      yield event;
      if (isFinalEvent(event.type)) return;
    }
  }
}
