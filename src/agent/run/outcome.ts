import type { RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { TurnEnd } from "../engine.ts";
import { runEvent } from "./event.ts";
import { toRunUsage, type FinalStatus, type RunStop } from "./run.ts";

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
