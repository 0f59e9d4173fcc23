/** Runs that wait for leave while no process runs them, and how one takes them up again. */
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { MASK } from "../../base/observe/redact.ts";
import type { Tx } from "../../store/store.ts";
import type { QuestionRow, RunRow } from "../../store/schema/tables.ts";
import { zeroUsage, type ToolAnswer, type ToolCall, type Usage } from "../engine.ts";
import type { Message, ToolMessage } from "../message.ts";
import type { Steer } from "../run/control.ts";
import { parseInput } from "../run/run.ts";
import { brokenStep, steerEvents, unsavedEvents, type BrokenStep, type RunFact } from "./rebuild-step.ts";
import { isParked } from "../run/stop.ts";
import { callTool } from "../tool/call.ts";
import type { ToolCallScope } from "../tool/scope.ts";

/** A run that ends its process every time must not do so for ever. */
export const MAX_STARTS = 4;

/** Where a run stood when its process went: its step in the middle, and what waits for whose leave. */
export interface Suspended {
  readonly step: BrokenStep;
  readonly waiting: readonly WaitingCall[];
  /** Of the steps before. */
  readonly usage: Usage;
  /** Ids of the steering that the model has had, and steering that it has not. */
  readonly steered: readonly string[];
  readonly steers: readonly Steer[];
}

interface WaitingCall {
  readonly call: ToolCall;
  readonly ask: QuestionRow;
}

/** What is known of a run already. */
export interface KnownOfRun {
  /** Those of its unsaved step. */
  readonly events: readonly RunFact[];
  /** All its questions, newest first. */
  readonly questions: readonly QuestionRow[];
}

/**
 * How a run can be taken up again, inside `tx`; undefined when it cannot. It can when nobody's leaving ends it and every
 * call of its step has either ended or waits for approval that was not made use of, so that nothing is done twice.
 */
export async function suspended(tx: Tx, run: RunRow, known?: KnownOfRun): Promise<Suspended | undefined> {
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
    const ask = questions.find(({ id, call_id: callId }) => callId === call.callId && step.asked.has(id));
    if (!ask || ask.used_at !== null || ask.status === "cancelled") return undefined;
    waiting.push({ call, ask });
  }
  if ((await startsOf(tx, run.id)) >= MAX_STARTS) return undefined;
  return { step, waiting, usage: await usageOf(tx, run.id), ...(await steersOf(tx, run.id)) };
}

/** The messages of the broken step, once all that waits in it has come to an end. Rejects when the store fails. */
export async function settleStep(
  { step, waiting }: Suspended,
  scope: ToolCallScope,
): Promise<readonly Message[]> {
  const answers = await Promise.all(
    waiting.map(async ({ call, ask }): Promise<ToolMessage> => {
      const { callId, tool } = call;
      const answered = await answer(call, { ...scope, prior: ask });
      // A call that cannot be made any more was answered without its question.
      if (!isParked(scope.signal)) await scope.questions.withdraw(ask);
      return { role: "tool", callId, tool, ...answered };
    }),
  );
  return [...step.messages, ...step.answers, ...answers];
}

/** A call whose arguments held a secret is known without it only, and is another call then. */
async function answer(call: ToolCall, scope: ToolCallScope): Promise<ToolAnswer> {
  const isWhole = !JSON.stringify(call.input ?? null).includes(MASK);
  return callTool(isWhole ? call : { ...call, invalid: LOST_ARGUMENTS }, scope);
}

const LOST_ARGUMENTS =
  "The server was restarted while this call waited for leave, and its arguments held a secret that is not kept. Call again.";

/** The questions of runs, newest first. */
export async function questionsOf(tx: Tx, runIds: readonly string[]): Promise<QuestionRow[]> {
  if (runIds.length === 0) return [];
  return tx.db
    .selectFrom("questions")
    .selectAll()
    .where("run_id", "in", runIds)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .execute();
}

export async function startsOf(tx: Tx, runId: string): Promise<number> {
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

async function usageOf(tx: Tx, runId: string): Promise<Usage> {
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
  return {
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedInputTokens: usage.cached_input_tokens,
    cacheWriteTokens: usage.cache_write_tokens,
    reasoningTokens: usage.reasoning_tokens,
    modelCalls: usage.model_calls,
    toolCalls: usage.tool_calls,
  };
}
