import type { RunToolCall, RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { Tx, Store } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { TurnEnd } from "../engine.ts";
import { runEvent, sessionEvent } from "./event.ts";
import {
  toRunUsage,
  type FinalStatus,
  type RunStop,
  endAllRuns,
  endRun,
  parseInput,
  type RunInput,
} from "./run.ts";
import type { AgentDeps } from "../deps.ts";
import { enqueueEndWebhook } from "../notify/run-webhook.ts";
import { headOf } from "../../base/text.ts";

/** How a run ends: its status, its columns and its final event. */
export interface Outcome {
  readonly status: FinalStatus;
  readonly set: Partial<RunRow>;
  readonly event: NewEvent;
}

/** How a run is closed when its turn is over. */
export interface RunClose<T> {
  /** Closes the run. False when it has ended already. */
  readonly end: (tx: Tx, outcome: Outcome) => Promise<boolean>;
  /** Starts what follows, in the same transaction. */
  readonly next: (tx: Tx) => Promise<T>;
  /** Instead of `next` when the run has ended already. */
  readonly ended: (tx: Tx) => Promise<T | undefined>;
  /** Calls `write`, the transaction of the end, until it succeeds or is given up. */
  readonly attempts: (write: () => Promise<T | undefined>) => Promise<T | undefined>;
}

/** Returns the outcome of a run from the engine's end and the reason of a stop, if any. */
export function outcomeOf(
  runId: string,
  end: TurnEnd,
  context: {
    readonly stop: RunStop | undefined;
    readonly pendingSteer: readonly string[];
    /** Calls that the client is to make. */
    readonly requested?: readonly RunToolCall[];
  },
): Outcome {
  const usage = toRunUsage(end.usage);
  const stored = {
    usage: JSON.stringify(usage),
    ...(context.pendingSteer.length > 0 ? { pending_steer: JSON.stringify(context.pendingSteer) } : {}),
  };
  const pending = context.pendingSteer.length > 0 ? { pending_steer: [...context.pendingSteer] } : {};
  if (end.stop === "aborted") return stopped(runId, context.stop, { usage, stored, pending });
  if (end.stop === "error") {
    const error = {
      code: end.error?.code ?? "internal_error",
      message: end.error?.message ?? "The agent failed.",
    };
    const set = { ...stored, error: JSON.stringify(error) };
    const { retryAfterSeconds, failure } = end.error ?? {};
    const retry = retryAfterSeconds === undefined ? {} : { retry_after_seconds: retryAfterSeconds };
    const data = { error, usage, ...retry, ...(failure ? { failure } : {}), ...pending };
    return { status: "failed", set, event: runEvent(runId, "run.failed", data) };
  }
  if (end.stop === "tool_calls") {
    const action = { type: "submit_tool_outputs" as const, tool_calls: [...(context.requested ?? [])] };
    const data = { output: null, usage, stop: end.stop, required_action: action, ...pending };
    return {
      status: "completed",
      set: { ...stored, required_action: JSON.stringify(action) },
      event: runEvent(runId, "run.completed", data),
    };
  }
  return {
    status: "completed",
    set: { ...stored, output: end.text },
    event: runEvent(runId, "run.completed", { output: end.text, usage, stop: end.stop, ...pending }),
  };
}

/** Returns the outcome of a run that was stopping when its process ended. */
export function cancelledOutcome(runId: string, pendingSteer: readonly string[]): Outcome {
  const pending = pendingSteer.length > 0 ? { pending_steer: [...pendingSteer] } : {};
  const data = { reason: "The run was stopped, and its process ended meanwhile.", ...pending };
  return {
    status: "cancelled",
    set: pendingSteer.length > 0 ? { pending_steer: JSON.stringify(pendingSteer) } : {},
    event: runEvent(runId, "run.cancelled", data),
  };
}

/** Returns the outcome of a run whose process has ended or is ending. */
export function interruptedOutcome(
  runId: string,
  message: string,
  pendingSteer: readonly string[] = [],
): Outcome {
  const error = { code: "interrupted", message };
  const pending = pendingSteer.length > 0 ? { pending_steer: [...pendingSteer] } : {};
  return {
    status: "interrupted",
    set: {
      error: JSON.stringify(error),
      ...(pendingSteer.length > 0 ? { pending_steer: JSON.stringify(pendingSteer) } : {}),
    },
    event: runEvent(runId, "run.interrupted", { error, ...pending }),
  };
}

interface Stats {
  readonly usage: ReturnType<typeof toRunUsage>;
  readonly stored: Partial<RunRow>;
  readonly pending: { readonly pending_steer?: string[] };
}

function stopped(runId: string, stop: RunStop | undefined, { usage, stored, pending }: Stats): Outcome {
  if (stop?.kind === "shutdown") {
    const outcome = interruptedOutcome(runId, stop.message, pending.pending_steer);
    return { ...outcome, set: { ...stored, ...outcome.set } };
  }
  if (stop?.kind === "timeout" || stop?.kind === "failure") {
    const code = stop.kind === "timeout" ? "agent_timeout" : "internal_error";
    const error = { code, message: stop.message };
    const set = { ...stored, error: JSON.stringify(error) };
    return { status: "failed", set, event: runEvent(runId, "run.failed", { error, usage, ...pending }) };
  }
  const data = { ...(stop ? { reason: stop.message } : {}), usage, ...pending };
  return { status: "cancelled", set: stored, event: runEvent(runId, "run.cancelled", data) };
}

/** Longest text of a background prompt in its event; the run has all of it. */
const MAX_TEXT_CHARACTERS = 65_536;

interface ConcludedRun {
  readonly run: RunRow;
  /** The session was made for this one request. */
  readonly isStateless?: boolean;
  readonly deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">;
}

/**
 * Ends a run and, in the same transaction, adds its usage to the session, enqueues its webhook, and notifies its trigger
 * and the session of a background prompt. False when the run had ended already. The caller appends the final event.
 */
export async function concludeRun(tx: Tx, concluded: ConcludedRun, outcome: Outcome): Promise<boolean> {
  if (!(await endRun(tx, concluded.run.id, outcome.status, outcome.set))) return false;
  await followEnd(tx, concluded, outcome);
  return true;
}

/** As {@link concludeRun}, for many runs. */
export async function concludeAllRuns(
  tx: Tx,
  deps: ConcludedRun["deps"],
  ends: readonly { readonly run: RunRow; readonly outcome: Outcome }[],
): Promise<void> {
  const endings = ends.map(({ run, outcome: { status, set } }) => ({ runId: run.id, status, set }));
  const ended = await endAllRuns(tx, endings);
  for (const { run, outcome } of ends) {
    if (ended.has(run.id)) await followEnd(tx, { run, deps }, outcome);
  }
}

async function followEnd(
  tx: Tx,
  { run, isStateless = false, deps }: ConcludedRun,
  outcome: Outcome,
): Promise<void> {
  const { store, runEnded: ended, trigger } = deps;
  if (ended) tx.afterCommit(() => ended(run.kind, outcome.status));
  await enqueueEndWebhook(tx, store, run, outcome);
  if (run.delivery !== null && trigger?.owns(run.delivery)) await trigger.ended(tx, run, outcome);
  const isPlain = run.kind !== "subagent" && run.kind !== "background";
  if (isPlain && isStateless) return;
  // Only these kinds work for another session; the input of the others may be long and is not parsed again.
  const { family, notifySessionId } = isPlain ? {} : parseLinks(run);
  await addToSession(tx, family?.root.sessionId ?? run.session_id, outcome.set.usage ?? null);
  if (notifySessionId !== undefined) await notify(tx, store, notifySessionId, { run, outcome });
}

function parseLinks(run: RunRow): Pick<RunInput, "family" | "notifySessionId"> {
  return parseInput(run);
}

/** Sessions made for one request keep no sum: their only run has it. */
async function addToSession(tx: Tx, sessionId: string, usage: string | null): Promise<void> {
  if (usage === null) return;
  const session = await tx.find("sessions", { id: sessionId });
  if (!session || session.transient === 1) return;
  const known = session.usage === null ? undefined : (JSON.parse(session.usage) as RunUsage);
  const sum = known ? addRunUsage(known, JSON.parse(usage) as RunUsage) : JSON.parse(usage);
  await tx.update("sessions", { id: sessionId }, { usage: JSON.stringify(sum) });
}

export function addRunUsage(a: RunUsage, b: RunUsage): RunUsage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
    reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens,
    cost_usd: a.cost_usd === null || b.cost_usd === null ? null : a.cost_usd + b.cost_usd,
    model_calls: a.model_calls + b.model_calls,
    tool_calls: a.tool_calls + b.tool_calls,
  };
}

async function notify(
  tx: Tx,
  store: Store,
  sessionId: string,
  { run, outcome }: { readonly run: RunRow; readonly outcome: Outcome },
): Promise<void> {
  // The session may have been deleted meanwhile.
  if (!(await tx.find("sessions", { id: sessionId }))) return;
  const { error, reason } = outcome.event.data as { error?: { message: string }; reason?: string };
  const text = outcome.set.output ?? error?.message ?? reason ?? "";
  const event = sessionEvent("background.complete", {
    task_id: run.id,
    status: outcome.status === "completed" ? "complete" : "error",
    text: headOf(text, MAX_TEXT_CHARACTERS),
  });
  await store.journal.append(tx, sessionId, [event]);
}
