import { firstCharacters } from "../../base/text.ts";
import type { Run, RunUsage } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { columnsOf } from "../../store/schema/tables.ts";
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

/** The input of a run. Stored whole, so that any process can run it. */
export interface RunInput {
  /** Messages to add to the transcript when the run starts; the prompt is last. */
  readonly prompt: readonly Message[];
  /** Instructions of the request, after the configured ones. */
  readonly instructions?: string;
  readonly settings: ModelSettings;
  /** Narrows the configured toolsets; undefined: all of them. */
  readonly toolsets?: readonly string[];
  /** Whether a person can answer questions of this run; if not, calls that require approval are denied at once. */
  readonly answerable: boolean;
  /** Set when only approvals can be answered, and no other questions. */
  readonly onlyApprovals?: true;
  /** Tools of the client: a call of one ends the run. They replace the server's tools of the same name. */
  readonly clientTools?: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  /** Instead of the configured one. */
  readonly timeoutMs?: number;
  /** The run and its sub-agents are stopped when nothing happens for this long; 0 or absent: never. */
  readonly inactivityMs?: number;
  /** True: the run needs no connected client, and if it waits for approval it survives a restart. */
  readonly isDetached?: true;
  /** True: the run restarts if its process ends before the run called a tool; else it ends as interrupted. */
  readonly startsAgain?: true;
  /** W3C trace context of the request, so that the run is part of its trace. */
  readonly traceparent?: string;
  /** Set for a sub-agent. */
  readonly family?: RunFamily;
  /** Overrides the configured limit. */
  readonly maxSteps?: number;
  readonly tokenBudget?: number;
  /** For a background prompt: the session that gets the notification of its end. */
  readonly notifySessionId?: string;
  /** For a compression: what the summary should focus on. */
  readonly focus?: string;
  /** Set: the run waits, recorded, above the limit of concurrent runs; absent: it is refused. */
  readonly slot?: RunSlot;
}

/** The position of a sub-agent in its family. The run at the top asks the questions and keeps the grants. */
export interface RunFamily {
  readonly parentRunId: string;
  /** 1 for a sub-agent of a top-level run. */
  readonly depth: number;
  readonly root: { readonly runId: string; readonly sessionId: string };
}

/** Returns the id of the response that a run of kind response creates. */
export function responseIdOf(runId: string): string {
  return `resp_${runId.slice("run_".length)}`;
}

/** Returns the row of a new, queued run. */
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
    /** Where its answer goes, as run-trigger.ts records it. */
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
    reply_to: from.delivery ?? null,
    required_action: null,
    pending_steer: null,
    input_preview: preview(from.input),
    precedence: 0,
  };
}

/** The transitions of each status. A final status never changes again. */
const NEXT: Readonly<Record<RunStatus, readonly RunStatus[]>> = {
  queued: ["running", "cancelled", "interrupted", "failed"],
  // A run whose process has ended may be queued again: resume.ts moves it, under its session's lease.
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
 * False when the run is no longer in `from`.
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
 * Ends a run, inside `tx`, whatever its status.
 * False when it has ended already: a final status never changes again.
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

/** The end of one of many runs, see {@link endAllRuns}. */
export interface RunEnding {
  readonly runId: string;
  readonly status: FinalStatus;
  readonly set: Partial<RunRow>;
}

/** As {@link endRun}, for many runs, with one statement for equal ends. Resolves to the ids of the runs it ended. */
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

/** The columns of a run that users see. The input may be long and is not read. */
export type RunView = Omit<RunRow, "input" | "webhook" | "reply_to">;

export const runViewColumns = columnsOf("runs").filter(
  (name) => name !== "input" && name !== "webhook" && name !== "reply_to",
) as readonly (keyof RunView)[];

/** Returns a run of `owner`. ServiceError `run_not_found`, also for another owner's run. */
export async function findRun(store: Store, runId: string, owner: string): Promise<RunView> {
  const query = store.read.selectFrom("runs").select(runViewColumns).where("id", "=", runId);
  const row = await query.executeTakeFirst();
  if (row?.owner === owner) return row;
  const what = `There is no run ${JSON.stringify(runId)}. Runs are kept for a limited time after they end.`;
  throw new ServiceError("run_not_found", what);
}

/** Returns the run as every surface shows it. */
export function describeRun(row: RunView, sessionKey: string | null, questions: readonly QuestionRow[]): Run {
  const approvals = questions
    .filter(({ kind, status }) => kind === "approval" && status === "open")
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

/** Returns the row without the prompt, which its parsed `input` holds: a prompt of megabytes is kept once. */
export function withoutPrompt(row: RunRow, input: RunInput): RunRow {
  return { ...row, input: JSON.stringify({ ...input, prompt: [] } satisfies RunInput) };
}

/** Returns the usage with the wire's names. The cost is null: prices are not known yet. */
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
  return last ? firstCharacters(textOf(last), PREVIEW_CHARACTERS) : "";
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

/** Why a run stops: the reason of its abort signal, from which its outcome follows. */
export class RunStop extends Error {
  override readonly name = "RunStop";
  /**
   * cancelled: a stop was requested. timeout: a time limit is reached. shutdown: the process ends. failure: the run cannot
   * be recorded. parked: the process ends, and another one resumes the run.
   */
  readonly kind: "cancelled" | "timeout" | "shutdown" | "failure" | "parked";

  constructor(kind: RunStop["kind"], message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}

/** Whether the run of this signal was parked: its stored state must not change. */
export function isParked({ reason }: AbortSignal): boolean {
  return reason instanceof RunStop && reason.kind === "parked";
}

/** The running run of a session. */
export interface RunningTurn {
  readonly runId: string;
  /** Effective `provider:model`. */
  readonly model: string;
  /** True for a turn of the agent, which can be steered; false for a compression. */
  readonly isTurn: boolean;
}

/** Returns the running run of a session, in whichever process it runs; undefined: none runs. */
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

/** Yields the events of a run as they come, up to and including the final one. */
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
