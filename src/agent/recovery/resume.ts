/** How runs survive the end of their process: parked while they wait for approval and resumed, or started again. */
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { MASK } from "../../base/observe.ts";
import type { Tx, Store } from "../../store/store.ts";
import { isOneOf } from "../../store/tx/tx.ts";
import type { QuestionRow, RunRow } from "../../store/schema/tables.ts";
import { zeroUsage, type Usage, readRunUsage } from "../usage/usage.ts";
import type { ToolAnswer, ToolCall, Message, ToolMessage } from "../engine.ts";
import type { Steer } from "../run/control.ts";
import { parseInput, isParked, RunStop } from "../run/run.ts";
import { brokenStep, steerEvents, unsavedEvents, type BrokenStep, type RunRecord } from "./rebuild-step.ts";
import { callTool } from "../tool/call.ts";
import type { ToolCallScope } from "../tool/scope.ts";
import { runEvent } from "../run/event.ts";
import type { AgentDeps } from "../deps.ts";

/** Limit of starts for a run that may be what ends its process. */
const MAX_STARTS = 4;

/** The state of a run when its process ended: its unfinished step and the calls that wait for approval. */
export interface Suspended {
  readonly step: BrokenStep;
  readonly waiting: readonly WaitingCall[];
  /** Usage of the steps before. */
  readonly usage: Usage;
  /** Ids of the steering that the model has seen, and the steering that it has not. */
  readonly steered: readonly string[];
  readonly steers: readonly Steer[];
}

interface WaitingCall {
  readonly call: ToolCall;
  readonly question: QuestionRow;
}

/** Records of a run that are already read. */
export interface KnownRecords {
  /** Those of its unsaved step. */
  readonly events: readonly RunRecord[];
  /** All its questions, newest first. */
  readonly questions: readonly QuestionRow[];
}

/**
 * Returns the state from which a run can be resumed, inside `tx`; undefined when it cannot. A run can be resumed if it is
 * detached and every call of its step has ended or waits for an approval that is not used yet, so that no call runs twice.
 */
export async function suspended(tx: Tx, run: RunRow, known?: KnownRecords): Promise<Suspended | undefined> {
  if (run.status !== "waiting_for_approval" && run.status !== "running") return undefined;
  if (run.kind === "subagent" || run.kind === "compression" || parseInput(run).isDetached !== true)
    return undefined;
  const step = brokenStep(known?.events ?? (await unsavedEvents(tx, run.id)));
  if (step.unfinished.length === 0) return undefined;
  const questions = known?.questions ?? (await questionsOf(tx, [run.id]));
  const isOther = ({ status, kind, call_id: callId }: QuestionRow) =>
    status === "open" && (kind !== "approval" || callId === null);
  if (questions.some(isOther)) return undefined;
  const waiting: WaitingCall[] = [];
  for (const call of step.unfinished) {
    const question = questions.find(
      ({ id, call_id: callId }) => callId === call.callId && step.asked.has(id),
    );
    if (!question || question.used_at !== null || question.status === "cancelled") return undefined;
    waiting.push({ call, question });
  }
  if ((await startsOf(tx, run.id)) >= MAX_STARTS) return undefined;
  return { step, waiting, usage: await usageOf(tx, run), ...(await steersOf(tx, run.id)) };
}

/** Resolves to the messages of the broken step when all its waiting calls have ended. Rejects when the store fails. */
export async function settleStep(
  { step, waiting }: Suspended,
  scope: ToolCallScope,
): Promise<readonly Message[]> {
  const answers = await Promise.all(
    waiting.map(async ({ call, question }): Promise<ToolMessage> => {
      const { callId, tool } = call;
      const answered = await answer(call, { ...scope, prior: question });
      // A call that can no longer run is answered without its question.
      if (!isParked(scope.signal)) await scope.questions.withdraw(question);
      return { role: "tool", callId, tool, ...answered };
    }),
  );
  return [...step.messages, ...step.answers, ...answers];
}

/** Refuses a call whose arguments held a secret: only the redacted arguments are stored. */
async function answer(call: ToolCall, scope: ToolCallScope): Promise<ToolAnswer> {
  const isWhole = !JSON.stringify(call.input ?? null).includes(MASK);
  return callTool(isWhole ? call : { ...call, invalid: LOST_ARGUMENTS }, scope);
}

const LOST_ARGUMENTS =
  "The server was restarted while this call waited for approval, and its arguments held a secret that is not stored. Call again.";

/** Returns the questions of runs, newest first. */
export async function questionsOf(tx: Tx, runIds: readonly string[]): Promise<QuestionRow[]> {
  if (runIds.length === 0) return [];
  return tx.db
    .selectFrom("questions")
    .selectAll()
    .where(isOneOf(tx, "run_id", runIds))
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .execute();
}

async function startsOf(tx: Tx, runId: string): Promise<number> {
  const { count } = await tx.db
    .selectFrom("events")
    .select((of) => of.fn.countAll().as("count"))
    .where("run_id", "=", runId)
    .where("type", "=", "run.started")
    .executeTakeFirstOrThrow();
  return Number(count);
}

async function steersOf(tx: Tx, runId: string): Promise<Pick<Suspended, "steered" | "steers">> {
  const events = await steerEvents(tx, runId);
  const idOf = ({ data }: { readonly data: Readonly<Record<string, unknown>> }) => String(data["steer_id"]);
  const steered = events.filter(({ type }) => type === "run.steered").map(idOf);
  const left = events.filter((event) => !steered.includes(idOf(event)));
  return { steered, steers: left.map((event) => ({ id: idOf(event), text: String(event.data["text"]) })) };
}

async function usageOf(tx: Tx, { id: runId, model }: RunRow): Promise<Usage> {
  const last = await tx.db
    .selectFrom("events")
    .select("data")
    .where("run_id", "=", runId)
    .where("type", "=", "usage.updated")
    .orderBy("run_seq", "desc")
    .limit(1)
    .executeTakeFirst();
  if (!last) return zeroUsage;
  const { usage } = JSON.parse(last.data) as { readonly usage: RunUsage };
  return readRunUsage(usage, model);
}

const NOTICE = "The server process ended before this run did anything: the run starts again.";

/**
 * Puts a run whose process has ended back into the queue of its session, inside `tx`, if its input allows it and it has
 * only called the model: no tools, no steering. False: it cannot start again. The journal decides, since it has the first
 * call before the tool begins. The output so far is dropped; the run's id and `delivery` stay. The caller holds the
 * session's lease and starts the queued runs.
 */
export async function startAgain(
  tx: Tx,
  run: RunRow,
  { store, trigger, log }: Pick<AgentDeps, "store" | "trigger" | "log">,
): Promise<boolean> {
  const { id, session_id: sessionId } = run;
  if (run.status !== "running" || run.stop_requested === 1 || parseInput(run).startsAgain !== true)
    return false;
  if ((await hasActed(tx, id)) || (await isCompressed(tx, sessionId))) return false;
  const starts = await startsOf(tx, id);
  if (starts >= MAX_STARTS) {
    log.warn("a run is not started again: its process ended each time", { run: id, starts });
    return false;
  }
  const queued = { status: "queued", started_at: null, updated_at: tx.nowMs };
  if ((await tx.update("runs", { id, status: "running" }, queued)) === 0) return false;
  // Its prompt joins the transcript when it starts.
  await tx.db.deleteFrom("messages").where("session_id", "=", sessionId).where("run_id", "=", id).execute();
  await tx.increment("sessions", { id: sessionId }, "queued", 1);
  await store.journal.append(tx, sessionId, [runEvent(id, "run.notice", { message: NOTICE })]);
  if (run.reply_to !== null && trigger?.owns(run.reply_to)) await trigger.requeued?.(tx, run);
  tx.afterCommit(() => log.info("a run whose process has ended starts again", { run: id, starts }));
  return true;
}

/** Makes the journal of a run durable: any durable write flushes the earlier ones. */
export async function keepOnDisk(store: Store, runId: string): Promise<void> {
  await store.write((tx) => tx.update("runs", { id: runId }, { updated_at: tx.nowMs }));
}

/** Steering counts as an act: its text is in no prompt and would be lost. */
const ACTS = ["tool.started", "tool.requested", "run.steer_accepted"] as const;

async function hasActed(tx: Tx, runId: string): Promise<boolean> {
  const acts = tx.db.selectFrom("events").select("seq").where("run_id", "=", runId).where("type", "in", ACTS);
  return (await acts.limit(1).executeTakeFirst()) !== undefined;
}

/** Whether the transcript was compressed, so that it holds more than the prompt. */
async function isCompressed(tx: Tx, sessionId: string): Promise<boolean> {
  const session = await tx.find("sessions", { id: sessionId });
  return !session || session.summary_seq !== null;
}

/** A running run, as a drain sees it. */
interface DrainedRun {
  readonly runId: string;
  readonly isDetached: boolean;
  readonly canStartAgain: boolean;
  park(): void;
  stop(stop: RunStop): Promise<void>;
}

/** How often a drain checks for runs that wait for approval by now. */
const PARK_MS = 500;

/**
 * Ends the running runs before the process ends: waits `graceMs` for them, parks detached runs that wait for approval and
 * runs that can start again, and cuts the rest, which end as interrupted. `settled` resolves when none is running. `onCut`
 * is called when the grace time is over.
 */
export async function drainRuns(
  running: Iterable<DrainedRun>,
  deps: AgentDeps,
  {
    graceMs,
    settled,
    onCut,
  }: { readonly graceMs: number; readonly settled: Promise<void>; readonly onCut: () => void },
): Promise<void> {
  const over = new AbortController();
  const patience = deps.clock.sleep(graceMs, { signal: over.signal }).catch(() => {});
  void Promise.race([settled, patience]).then(() => over.abort());
  do await parkWaiting(running, deps);
  while (await isStillPatient(deps, over.signal));
  onCut();
  await parkWaiting(running, deps);
  for (const execution of running) {
    if (execution.canStartAgain) execution.park();
    else await execution.stop(new RunStop("shutdown", "The server was shut down while the run was active."));
  }
  await settled;
}

function isStillPatient({ clock }: AgentDeps, over: AbortSignal): Promise<boolean> {
  return clock.sleep(PARK_MS, { signal: over }).then(
    () => true,
    () => false,
  );
}

/** Parks the runs that can be resumed. A run that cannot be parked, even for want of a database, is cut later. */
async function parkWaiting(running: Iterable<DrainedRun>, { store, log }: AgentDeps): Promise<void> {
  for (const execution of running) {
    if (!execution.isDetached) continue;
    try {
      const canWait = await store.write(async (tx) => {
        const run = await tx.find("runs", { id: execution.runId });
        return run !== undefined && (await suspended(tx, run)) !== undefined;
      });
      if (canWait) execution.park();
    } catch (error) {
      log.warn("a run that waits for approval could not be parked", { run: execution.runId, error });
    }
  }
}
