/** A run: its prompt, input, row, transitions, view and outcome, and the trigger that started it. */
import { firstCharacters } from "../../base/text.ts";
import type { Run, RunUsage, RunEvent, SessionEvent } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { columnsOf, isOneOf } from "../../store/tx/tx.ts";
import { type QuestionRow, type RunRow, type SessionRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { ModelSettings, OutputFormat, ToolChoice, ToolSpec, Message } from "../engine.ts";
import type { Usage } from "../usage/usage.ts";
import type { ModelRef } from "../model.ts";
import { toApprovalRequest } from "../question/question.ts";
import { nameOfId, type SessionAddress, type SessionSeed, textOf } from "../session/session.ts";

import type { JournalEvent, NewEvent } from "../../store/journal/journal.ts";
import { endColumns, type RunEventName } from "./event.ts";

export type RunStatus = Run["status"];
export type FinalStatus = Extract<RunStatus, "completed" | "failed" | "cancelled" | "interrupted">;
export type RunKind = Run["kind"];

/** The input of a run. Stored whole, so that any process can run it. */
export interface RunInput {
  /** Messages to add to the transcript when the run starts; the prompt is last. */
  readonly prompt: readonly Message[];
  /** Instructions of the request, after the configured ones. */
  readonly instructions?: string;
  /** True: {@link instructions} replace the configured ones. */
  readonly replacesInstructions?: true;
  readonly settings: ModelSettings;
  /** Narrows the configured toolsets; undefined: all of them. */
  readonly toolsets?: readonly string[];
  /** Whether a person can answer questions of this run; if not, calls that require approval are denied at once. */
  readonly answerable: boolean;
  /** Set when only approvals can be answered, and no other questions. */
  readonly onlyApprovals?: true;
  /** Tools of the client: a call to one ends the run. They replace the server's tools of the same name. */
  readonly clientTools?: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  readonly outputFormat?: OutputFormat;
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
  /** True: a turn that the model refuses before it calls a tool is removed from the conversation with its prompt. */
  readonly undoesRefusal?: true;
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

/**
 * Set for a run without a waiting client. Above the limit such a run is recorded and waits; any other run is refused.
 */
export interface RunSlot {
  /** Runs of the same group are counted together. */
  readonly group: string;
  /** Most runs of the group at once in one process; absent: only the limit of all runs applies. */
  readonly max?: number;
}

/** What a prompt to a busy session does. interrupt: it stops the running turn and runs next. */
export type BusyMode = "queue" | "reject" | "steer" | "interrupt";

/** A prompt of a surface or trigger to the agent. */
export interface Prompt {
  readonly address: SessionAddress;
  readonly seed: SessionSeed;
  readonly kind: RunKind;
  /**
   * The input of the run. `opening` is the conversation before the prompt, for a new session; an existing session has its
   * own.
   */
  readonly input: RunInput & { readonly opening?: RunInput["prompt"] };
  /** Undefined: the session's own model, else the default. */
  readonly model?: ModelRef;
  /** Name of the caller's API key; absent: the prompt came without one. */
  readonly apiKey?: string | undefined;
  /** Id of the new run, if the caller has announced it; default: a new one. */
  readonly runId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly whenBusy?: BusyMode;
  /** Webhook of the run, as webhook.ts records it. */
  readonly webhook?: string;
  /** Where its answer goes, as webhook.ts records it. */
  readonly delivery?: string;
  /**
   * Writes further records in the transaction that records the run. When it throws no run is created. Like all store work
   * it may be called twice. The run is `running` when it starts at once in a new session.
   */
  readonly alsoRecord?: (tx: Tx, run: RunRow) => Promise<void>;
  /**
   * Writes further records when the text is steered into the run `runId` instead, in the same transaction. Without it a
   * prompt with {@link alsoRecord} is not steered.
   */
  readonly alsoSteer?: (tx: Tx, runId: string) => Promise<void>;
  /**
   * Refuses the run by throwing, in the same transaction, after {@link alsoRecord}. Called for a run that starts or waits
   * for a permit. Not called for a run queued behind another of its session, which replaces that one when it starts, nor
   * for steering.
   */
  readonly admit?: (tx: Tx) => Promise<void>;
  /** Called with the id of a new run before it is committed, so that the caller can follow it from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  /** steered: the text was added to the running run `runId`. */
  readonly status: "running" | "queued" | "steered";
  /** Milliseconds since the epoch; for a steered text, when it was accepted. */
  readonly createdAtMs: number;
  /** Position of a queued run: 1 is the next. */
  readonly queuePosition?: number;
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
    /** As webhook.ts records it. */
    readonly webhook?: string | undefined;
    /** Where its answer goes, as webhook.ts records it. */
    readonly delivery?: string | undefined;
    readonly apiKey?: string | undefined;
    readonly nowMs: number;
  },
): RunRow {
  return {
    id,
    session_id: session.id,
    owner: session.owner,
    key: from.apiKey ?? null,
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

/** How a run ends: its status, its columns and its final event. */
export interface Outcome {
  readonly status: FinalStatus;
  readonly set: Partial<RunRow>;
  readonly event: NewEvent;
  /** Absent: it used nothing. */
  readonly usage?: Usage;
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
 * Moves a run from one status to another, with further columns, inside `tx`. The feed names `actor` as who asked for it.
 * False when the run is no longer in `from`.
 */
export async function moveRun(
  tx: Tx,
  runId: string,
  step: { readonly from: RunStatus; readonly to: RunStatus; readonly actor?: string | undefined },
  set: Partial<RunRow> = {},
): Promise<boolean> {
  if (!NEXT[step.from].includes(step.to) || isFinalStatus(step.to)) {
    throw new Error(`run ${runId} cannot move from ${step.from} to ${step.to}`);
  }
  const columns = { status: step.to, updated_at: tx.nowMs, ...set };
  const isMoved = (await tx.update("runs", { id: runId, status: step.from }, columns)) === 1;
  // The start of a run has an event of its own.
  if (isMoved && step.from !== "queued") {
    const { to: status, actor = null } = step;
    tx.record({ type: "run.updated", ref: runId, runId, data: { status }, actor });
  }
  return isMoved;
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
  return (await tx.update("runs", { id: runId, ended_at: null }, endColumns(tx, status, set))) === 1;
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
    const ids = alike.map(({ runId }) => runId);
    const rows = await tx.db
      .updateTable("runs")
      .set({ status: first.status, ended_at: tx.nowMs, updated_at: tx.nowMs, ...first.set })
      .where(isOneOf(tx, "id", ids))
      // PostgreSQL would read the index of all open runs for `is null`.
      .where(({ fn, lit }) => fn.coalesce("ended_at", lit(0)), "=", 0)
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

/**
 * Returns a run of `owner`; undefined: of any owner. ServiceError `run_not_found`, including for another owner's run.
 */
export async function findRun(store: Store, runId: string, owner: string | undefined): Promise<RunView> {
  const query = store.read.selectFrom("runs").select(runViewColumns).where("id", "=", runId);
  const row = await query.executeTakeFirst();
  if (row && (owner === undefined || row.owner === owner)) return row;
  const what = `Run ${JSON.stringify(runId)} does not exist. Runs are kept for a limited time after they end.`;
  throw new ServiceError("run_not_found", what);
}

/** Returns the output and the status of a run, without its input. */
export function outputOf(
  { read }: Pick<Store, "read">,
  runId: string,
): Promise<Pick<RunRow, "output" | "status"> | undefined> {
  return read.selectFrom("runs").select(["output", "status"]).where("id", "=", runId).executeTakeFirst();
}

/** Where a run comes from, besides its row. */
export interface RunOrigin {
  readonly sessionKey: string | null;
  /** Source of its session; null: the session is gone. */
  readonly source: string | null;
  /** Id of the webhook delivery or of the occurrence that started it. */
  readonly trigger?: string | undefined;
}

/** Returns the run as every surface shows it. */
export function describeRun(row: RunView, origin: RunOrigin, questions: readonly QuestionRow[]): Run {
  const approvals = questions
    .filter(({ kind, status }) => kind === "approval" && status === "open")
    .map(toApprovalRequest);
  return {
    object: "agent.run",
    run_id: row.id,
    id: row.id,
    owner: row.owner,
    key: row.key,
    source: origin.source,
    parent_id: row.parent_id,
    delivery_id: origin.trigger?.startsWith("dlv_") ? origin.trigger : null,
    occurrence_id: origin.trigger?.startsWith("occ_") ? origin.trigger : null,
    kind: row.kind as RunKind,
    status: row.status as RunStatus,
    session_id: nameOfId(row.session_id),
    session_key: origin.sessionKey,
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
  /** Who requested it, such as the name of a key. */
  readonly by: string | undefined;

  constructor(
    kind: RunStop["kind"],
    message: string,
    { by, ...options }: { readonly cause?: unknown; readonly by?: string | undefined } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.by = by;
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

const FINAL: ReadonlySet<string> = new Set<RunEventName>([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
]);

/** Whether an event type ends a run: no event of the run follows it. */
export function isFinalEvent(type: string): boolean {
  return FINAL.has(type);
}

/** Returns the wire form of a session event. */
export function toSessionEvent(event: JournalEvent): SessionEvent {
  return {
    event: event.type,
    session_id: event.sessionId,
    seq: event.seq,
    timestamp: event.atMs / 1000,
    ...event.data,
  } as SessionEvent;
}

/** Returns the wire form of a run event. */
export function toRunEvent(event: JournalEvent): RunEvent {
  return {
    event: event.type,
    run_id: event.runId,
    seq: event.runSeq,
    timestamp: event.atMs / 1000,
    ...event.data,
  } as RunEvent;
}

/**
 * The origin of a run that keeps its own record of it, such as a webhook or a scheduled job. Called in the transactions
 * in which the run starts and ends, in whichever process that happens. It MUST NOT wait for anything but the transaction.
 */
export interface RunTrigger {
  /** Whether this trigger started the run, by its column `delivery`. */
  owns(delivery: string): boolean;
  /** Called for a run that was queued; `alsoRecord` handles one that starts as it is recorded. */
  started(tx: Tx, run: RunRow): Promise<void>;
  /** Called when the run's process has ended and the run is queued again. Absent: its runs never restart. */
  requeued?(tx: Tx, run: RunRow): Promise<void>;
  ended(tx: Tx, run: RunRow, outcome: Outcome): Promise<void>;
}

/** Joins several triggers into one, which calls the first that owns the run, if any. */
export function joinTriggers(triggers: readonly RunTrigger[]): RunTrigger {
  const ownerOf = ({ reply_to: replyTo }: RunRow) =>
    replyTo === null ? undefined : triggers.find((trigger) => trigger.owns(replyTo));
  return {
    owns: (delivery) => triggers.some((trigger) => trigger.owns(delivery)),
    started: async (tx, run) => ownerOf(run)?.started(tx, run),
    requeued: async (tx, run) => ownerOf(run)?.requeued?.(tx, run),
    ended: async (tx, run, outcome) => ownerOf(run)?.ended(tx, run, outcome),
  };
}

/** Where the answer of a run goes: the JSON in the column `delivery` of runs that a webhook asked for. Pure. */

export interface RunDelivery {
  /** Id of the webhook's delivery, `dlv_...`. First, since {@link isRunDelivery} goes by it. */
  readonly ref: string;
  /** Addresses of targets, each `platform` or `platform:rest`. */
  readonly targets: readonly string[];
  /** Targets that get a notice when a run does not complete. */
  readonly failure: readonly FailureTarget[];
  /** Fields for the targets besides the text. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** True: an answer with [SILENT] is not sent. */
  readonly suppressesSilence?: boolean;
}

export interface FailureTarget {
  readonly target: string;
  /** notice: one sentence without details of this service; reason: with the cause. */
  readonly says: "notice" | "reason";
}

/** Marks an answer that should not be sent. */
export const SILENT = "[SILENT]";

/** Whether the column `delivery` is a {@link RunDelivery}, by its first bytes: the end of a run parses no foreign JSON. */
export function isRunDelivery(delivery: string): boolean {
  return delivery.startsWith('{"ref":"dlv_');
}

export function readDelivery(delivery: string): RunDelivery {
  return JSON.parse(delivery) as RunDelivery;
}

/** The webhook of a run, stored as JSON in its row. */
export interface RunWebhook {
  readonly url: string;
  /** `whsec_<base64>` or plain text. Absent: the secret configured when the event is sent. */
  readonly secret?: string;
  /** Absent: all but approval_required. */
  readonly events?: readonly RunWebhookEvent[];
  /** Attempts for each event. */
  readonly maxAttempts: number;
}

export type RunWebhookEvent = FinalStatus | "approval_required";

/** The limits of an API key. */
export interface LimitedKey {
  readonly name: string;
  /** Whose data the key reaches. Default: the key's name. */
  readonly owner?: string;
  /** Requests a minute; absent: no limit. */
  readonly rateLimitRpm?: number;
  /** Concurrent runs; absent: no limit of its own. */
  readonly maxConcurrentRuns?: number;
  /** US dollars that its runs may cost on a day (UTC); absent: no limit of its own. */
  readonly dayBudgetUsd?: number;
}
