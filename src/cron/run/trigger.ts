import type { Outcome } from "../../agent/run/outcome.ts";
import type { RunTrigger } from "../../agent/notify/run-trigger.ts";
import type { ProviderFailure, RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { endOccurrence } from "./end-occurrence.ts";
import { endingOfAnswer, type Ending } from "./ending.ts";
import { isPlan, readPlan } from "./plan.ts";
import type { RunEnds } from "./run-ends.ts";

/** Keeps the occurrences of runs in step with them, in whatever process the runs start and end. */
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
      if (plan)
        await tx.update(
          "occurrences",
          { id: plan.ref, status: "claimed" },
          { status: "running", started_at: tx.nowMs },
        );
    },

    async ended(tx: Tx, run: RunRow, outcome: Outcome) {
      const plan = readPlan(run.reply_to);
      if (!plan) return;
      await endOccurrence(tx, store, { plan, ending: endingOf(outcome) });
      tx.afterCommit(() => ends.told(plan.ref));
    },
  };
}

interface Facts {
  readonly error?: { readonly message: string };
  readonly reason?: string;
  readonly usage?: RunUsage;
  readonly failure?: ProviderFailure;
}

function endingOf({ status, set, event }: Outcome): Ending {
  if (status === "completed") return endingOfAnswer(set.output ?? "");
  const facts: Facts = event.data;
  const text = facts.error?.message ?? facts.reason ?? `The run ended as ${status}.`;
  if (status === "interrupted") return { status: "unknown", text };
  return { status: "failed", text, ...(hasReachedNoModel(facts) ? { canRetry: true } : {}) };
}

/** Failures that are over sooner or later, and before which nothing was said or done. */
function hasReachedNoModel({ failure, usage }: Facts): boolean {
  if (!failure || !TRANSIENT.has(failure.kind)) return false;
  // The call that failed counts among them.
  return !usage || (usage.model_calls <= 1 && usage.tool_calls === 0 && usage.output_tokens === 0);
}

const TRANSIENT: ReadonlySet<ProviderFailure["kind"]> = new Set(["network", "overloaded", "rate_limit"]);
