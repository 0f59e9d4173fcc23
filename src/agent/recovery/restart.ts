/** Runs whose process is gone before they did anything: they start again. */
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { runEvent } from "../run/event.ts";
import type { AgentDeps } from "../deps.ts";
import { MAX_STARTS, startsOf } from "./resume.ts";
import { parseInput } from "../run/run.ts";

const NOTICE = "The server process ended before this run did anything: the run starts again.";

/**
 * Puts a run whose process is gone back into the queue of its session, inside `tx`, when it asked for that and has done
 * nothing but talk to the model: no call of a tool, nothing said in between. False: it cannot start again. The journal
 * decides, since the first call is in it before the tool begins. What the run said is dropped; its id and its delivery
 * stay. The caller holds the session's lease, and starts what is queued.
 */
export async function startAgain(
  tx: Tx,
  run: RunRow,
  { store, trigger, log }: Pick<AgentDeps, "store" | "trigger" | "log">,
): Promise<boolean> {
  const { id, session_id: sessionId } = run;
  if (run.status !== "running" || run.stop_requested === 1 || parseInput(run).startsAgain !== true)
    return false;
  if ((await hasActed(tx, id)) || (await isSummedUp(tx, sessionId))) return false;
  const starts = await startsOf(tx, id);
  if (starts >= MAX_STARTS) {
    log.warn("a run is not started again: it ended its process each time", { run: id, starts });
    return false;
  }
  const queued = { status: "queued", started_at: null, updated_at: tx.nowMs };
  if ((await tx.update("runs", { id, status: "running" }, queued)) === 0) return false;
  // Its prompt joins the transcript when it starts.
  await tx.db.deleteFrom("messages").where("session_id", "=", sessionId).where("run_id", "=", id).execute();
  await tx.increment("sessions", { id: sessionId }, "queued", 1);
  await store.journal.append(tx, sessionId, [runEvent(id, "run.notice", { message: NOTICE })]);
  if (run.reply_to !== null && trigger?.owns(run.reply_to)) await trigger.requeued?.(tx, run);
  tx.afterCommit(() => log.info("a run whose process is gone starts again", { run: id, starts }));
  return true;
}

/** What is in the journal of a run may not be on disk yet, as after a power cut: a durable write takes it along. */
export async function keepOnDisk(store: Store, runId: string): Promise<void> {
  await store.write((tx) => tx.update("runs", { id: runId }, { updated_at: tx.nowMs }));
}

/** Steering counts: somebody watches the run, and has said what is in no prompt. */
const ACTS = ["tool.started", "tool.requested", "run.steer_accepted"] as const;

async function hasActed(tx: Tx, runId: string): Promise<boolean> {
  const acts = tx.db.selectFrom("events").select("seq").where("run_id", "=", runId).where("type", "in", ACTS);
  return (await acts.limit(1).executeTakeFirst()) !== undefined;
}

/** Then the transcript does not hold the prompt alone. */
async function isSummedUp(tx: Tx, sessionId: string): Promise<boolean> {
  const session = await tx.find("sessions", { id: sessionId });
  return !session || session.summary_seq !== null;
}
