import type { Outcome } from "../agent/outcome.ts";
import type { RunTrigger } from "../agent/run-trigger.ts";
import type { Store, Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import { endOccurrence } from "./end-occurrence.ts";
import type { Ending } from "./ending.ts";
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
      const plan = readPlan(run.delivery);
      if (plan)
        await tx.update(
          "occurrences",
          { id: plan.ref, status: "claimed" },
          { status: "running", started_at: tx.nowMs },
        );
    },

    async ended(tx: Tx, run: RunRow, outcome: Outcome) {
      const plan = readPlan(run.delivery);
      if (!plan) return;
      await endOccurrence(tx, store, { plan, ending: endingOf(outcome) });
      tx.afterCommit(() => ends.told(plan.ref));
    },
  };
}

function endingOf(outcome: Outcome): Ending {
  const { error, reason } = outcome.event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  if (outcome.status === "completed") {
    const text = (outcome.set.output ?? "").trim();
    return text === "" ? { status: "failed", text: "The agent gave no answer." } : { status: "ok", text };
  }
  const why = error?.message ?? reason ?? `The run ended as ${outcome.status}.`;
  return { status: outcome.status === "interrupted" ? "unknown" : "failed", text: why };
}
