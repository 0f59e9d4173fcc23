import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { sessionEvent } from "./event.ts";
import type { Outcome } from "./outcome.ts";
import type { AgentDeps } from "../deps.ts";
import { endAllRuns, endRun, parseInput, type RunInput } from "./run.ts";
import { enqueueEndWebhook } from "../notify/run-webhook.ts";
import { headOf } from "../../base/text.ts";

/** Longest text of a background prompt that its event carries; all of it stands in the run. */
const MAX_TEXT_CHARACTERS = 65_536;

interface ConcludedRun {
  readonly run: RunRow;
  /** The session was made for this one request. */
  readonly isStateless?: boolean;
  readonly deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">;
}

/**
 * Ends a run and does what follows from it in the same transaction: the session's usage grows, and who waits for a
 * background prompt or asked for a webhook is told. False when the run had ended already. The final event itself is the
 * caller's to append.
 */
export async function concludeRun(tx: Tx, concluded: ConcludedRun, outcome: Outcome): Promise<boolean> {
  if (!(await endRun(tx, concluded.run.id, outcome.status, outcome.set))) return false;
  await followEnd(tx, concluded, outcome);
  return true;
}

/** As {@link concludeRun}, for many runs, of whose ends what follows is done one after the other. */
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
  if (run.reply_to !== null && trigger?.owns(run.reply_to)) await trigger.ended(tx, run, outcome);
  const isPlain = run.kind !== "subagent" && run.kind !== "background";
  if (isPlain && isStateless) return;
  // Only these kinds work for another session; what the others were asked may be long, and is not looked at again.
  const { family, notifySessionId } = isPlain ? {} : parseLinks(run);
  await addToSession(tx, family?.root.sessionId ?? run.session_id, outcome.set.usage ?? null);
  if (notifySessionId !== undefined) await notify(tx, store, notifySessionId, { run, outcome });
}

function parseLinks(run: RunRow): Pick<RunInput, "family" | "notifySessionId"> {
  return parseInput(run);
}

/** Sessions made for one request keep no sum: their one run has it. */
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
  // Who asked may have deleted the session meanwhile.
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
