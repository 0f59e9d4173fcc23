import type { Outcome } from "../../agent/run/outcome.ts";
import type { RunTrigger } from "../../agent/notify/run-trigger.ts";
import type { ProviderFailure, RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { endOccurrence } from "./end-occurrence.ts";
import { endingOfAnswer, type Ending } from "./ending.ts";
import { isPlan, readPlan } from "./plan.ts";

/** Returns the trigger that updates the occurrence of a run when the run starts and ends, in any process. */
export function createCronTrigger({
  store,
  ends,
}: {
  readonly store: Store;
  readonly ends: RunEnds;
}): RunTrigger {
  return {
    owns: isPlan,

    async started(tx: Tx, run: RunRow) {
      const plan = readPlan(run.reply_to);
      if (!plan) return;
      const started = { status: "running", started_at: tx.nowMs };
      await tx.update("occurrences", { id: plan.ref, status: "claimed" }, started);
    },

    async ended(tx: Tx, run: RunRow, outcome: Outcome) {
      const plan = readPlan(run.reply_to);
      if (!plan) return;
      await endOccurrence(tx, store, { plan, ending: endingOf(outcome) });
      tx.afterCommit(() => ends.resolve(plan.ref));
    },
  };
}

interface RunEnd {
  readonly error?: { readonly message: string };
  readonly reason?: string;
  readonly usage?: RunUsage;
  readonly failure?: ProviderFailure;
}

function endingOf({ status, set, event }: Outcome): Ending {
  if (status === "completed") return endingOfAnswer(set.output ?? "");
  const end: RunEnd = event.data;
  const text = end.error?.message ?? end.reason ?? `The run ended as ${status}.`;
  if (status === "interrupted") return { status: "unknown", text };
  return { status: "failed", text, ...(hasReachedNoModel(end) ? { canRetry: true } : {}) };
}

/** Whether a temporary failure ended the run before the model produced or did anything. */
function hasReachedNoModel({ failure, usage }: RunEnd): boolean {
  if (!failure || !TRANSIENT.has(failure.kind)) return false;
  // The failed call counts too.
  return !usage || (usage.model_calls <= 1 && usage.tool_calls === 0 && usage.output_tokens === 0);
}

const TRANSIENT: ReadonlySet<ProviderFailure["kind"]> = new Set(["network", "overloaded", "rate_limit"]);

/** Lets the scheduler of this process wait for the ends of occurrences. */
export class RunEnds {
  readonly #waiting = new Map<string, () => void>();

  /** Resolves when a run of this process ends the occurrence, or {@link resolve} is called for it. */
  wait(occurrenceId: string): Promise<void> {
    return new Promise((resolve) => this.#waiting.set(occurrenceId, resolve));
  }

  resolve(occurrenceId: string): void {
    const resolve = this.#waiting.get(occurrenceId);
    this.#waiting.delete(occurrenceId);
    resolve?.();
  }
}
