/** When a run that never reached a model is tried again. Pure. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import type { DeliveryPlan } from "./plan.ts";

const DELAYS_MS = [300_000, 900_000, 1_800_000] as const;

/** How long to wait after the failure of `plan`, undefined after the last one; and which try comes then, 1 for the first. */
export function retryAfterMs(
  { retries }: Pick<CronJobRow, "retries">,
  { cause }: Pick<DeliveryPlan, "cause">,
): { readonly waitMs: number | undefined; readonly retries: number } {
  const done = cause === "retry" ? retries : 0;
  return { waitMs: DELAYS_MS[done], retries: done + 1 };
}

/**
 * When the job runs again, undefined when it does not: who asked by hand sees the failure and asks again, a job that runs
 * once had its time, and at its next time a job runs anyhow.
 */
export function retryAtMs(
  row: Pick<CronJobRow, "state" | "retries" | "retry_at" | "next_run_at">,
  { plan, nowMs }: { readonly plan: Pick<DeliveryPlan, "cause" | "isOnce">; readonly nowMs: number },
): number | undefined {
  if (plan.isOnce || plan.cause === "manual" || row.state !== "scheduled") return undefined;
  const { waitMs } = retryAfterMs(row, plan);
  if (waitMs === undefined || row.retry_at !== null) return undefined;
  const atMs = nowMs + waitMs;
  return row.next_run_at === null || atMs < row.next_run_at ? atMs : undefined;
}
