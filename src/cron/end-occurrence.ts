import type { Store, Tx } from "../store/store.ts";
import type { CronJobRow } from "../store/tables.ts";
import type { Ending } from "./ending.ts";
import { failureText, wrapText } from "./message.ts";
import type { DeliveryStatus } from "./occurrence.ts";
import { outputDocument } from "./output.ts";
import { OUTPUT_TARGET } from "./output-target.ts";
import type { DeliveryPlan } from "./plan.ts";
import { isSilent } from "./silence.ts";

/**
 * Ends an occurrence in `tx`: its output is owed to its file and its text to those who are to be told, and the job keeps
 * what came of it. False when it had ended already.
 */
export async function endOccurrence(
  tx: Tx,
  store: Store,
  { plan, ending }: { readonly plan: DeliveryPlan; readonly ending: Ending },
): Promise<boolean> {
  const { ref, jobId, outputFile } = plan;
  const silent =
    ending.status === "ok" && (ending.isQuiet === true || isSilent(ending.text, plan.silentMatch));
  const targets = ending.status === "ok" ? plan.targets : plan.failureTargets;
  const told = silent || ending.isQuiet === true ? [] : targets;
  const columns = {
    status: ending.status,
    reason: ending.status === "ok" ? null : ending.text.slice(0, MAX_REASON_CHARACTERS),
    ended_at: tx.nowMs,
    lease_owner: null,
    lease_until: null,
    delivery_status: deliveryStatusOf(told, silent),
  };
  if ((await tx.update("occurrences", { id: ref, ended_at: null }, columns)) === 0) return false;
  const document = outputDocument(plan, ending);
  const output = { jobId, file: outputFile, text: document };
  await store.outbox.owe(tx, { target: OUTPUT_TARGET, payload: output });
  const text = ending.status === "ok" ? ending.text : failureText(plan, ending);
  for (const target of told) {
    await store.outbox.owe(tx, { target, payload: { text: wrapText(plan, text), extra: {} }, ref });
  }
  await noteEnd(tx, jobId, ending);
  return true;
}

const MAX_REASON_CHARACTERS = 500;

function deliveryStatusOf(told: readonly string[], silent: boolean): DeliveryStatus {
  if (told.length > 0) return "pending";
  return silent ? "silent" : "none";
}

/** People may have removed the job meanwhile. */
async function noteEnd(tx: Tx, jobId: string, { status, lastStatus, text }: Ending): Promise<void> {
  const row = await tx.find("cron_jobs", { id: jobId });
  if (!row) return;
  const isOk = status === "ok";
  const isFinished =
    row.state === "scheduled" && row.next_run_at === null && row.retry_at === null && row.manual_at === null;
  const columns: Partial<CronJobRow> = {
    last_status: lastStatus ?? LAST[status],
    last_error: isOk ? null : text.slice(0, MAX_REASON_CHARACTERS),
    failure_streak: isOk ? 0 : row.failure_streak + 1,
    updated_at: tx.nowMs,
    ...(isFinished ? { state: "completed" } : {}),
  };
  await tx.update("cron_jobs", { id: jobId }, columns);
}

const LAST = { ok: "ok", failed: "error", unknown: "unknown" } as const;
