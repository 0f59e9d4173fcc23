import type { Outcome } from "../../agent/run/outcome.ts";
import {
  isRunDelivery,
  readDelivery,
  SILENT,
  type RunDelivery,
  type RunTrigger,
} from "../../agent/notify/run-trigger.ts";
import type { Log } from "../../base/observe/log.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { freeAllNames } from "../receive/dedupe.ts";

/** Keeps the records of deliveries in step with their runs, in whatever process the runs start and end. */
export function createWebhookTrigger({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): RunTrigger {
  return {
    owns: isRunDelivery,

    async started(tx, run) {
      const { ref } = deliveryOf(run);
      await tx.update("deliveries", { id: ref, status: "accepted" }, { status: "running" });
    },

    async requeued(tx, run) {
      const { ref } = deliveryOf(run);
      await tx.update("deliveries", { id: ref, status: "running" }, { status: "accepted" });
    },

    /**
     * Enqueues the answer for its targets in the transaction that ends the run: once the run has ended, nothing but the
     * outbox is needed to send it. A delivery whose run did not complete gives its names back, so that its sender may
     * send it again.
     */
    async ended(tx, run, outcome) {
      const delivery = deliveryOf(run);
      const { ref } = delivery;
      const first = await enqueue(tx, store, delivery, outcome);
      // A run that somebody stopped is one that did not come to its end.
      const status = outcome.status === "cancelled" ? "interrupted" : outcome.status;
      const reason = reasonOf(outcome);
      const ended = { status, reason: reason ?? null, outbox_id: first ?? null, ended_at: tx.nowMs };
      await tx.update("deliveries", { id: ref }, ended);
      if (status === "completed") return;
      const row = await tx.find("deliveries", { id: ref });
      if (row) await freeAllNames(tx, row);
      tx.afterCommit(() =>
        log.warn("the run of a webhook did not complete", {
          delivery: ref,
          route: row?.route,
          run: run.id,
          status,
          reason,
        }),
      );
    },
  };
}

function deliveryOf({ delivery }: RunRow): RunDelivery {
  return readDelivery(delivery ?? "");
}

/** Resolves to the id of the first message. */
async function enqueue(
  tx: Tx,
  { outbox }: Store,
  delivery: RunDelivery,
  outcome: Outcome,
): Promise<string | undefined> {
  const { extra, ref } = delivery;
  const ids: string[] = [];
  for (const { target, text } of messagesOf(delivery, outcome)) {
    ids.push(await outbox.enqueue(tx, { target, payload: { text, extra }, ref }));
  }
  return ids[0];
}

function messagesOf(
  { targets, failure, suppressesSilence }: RunDelivery,
  outcome: Outcome,
): readonly { readonly target: string; readonly text: string }[] {
  if (outcome.status !== "completed") {
    return failure.map(({ target, says }) => ({ target, text: failureText(outcome, says) }));
  }
  const text = outcome.set.output ?? "";
  if (suppressesSilence === true && text.includes(SILENT)) return [];
  return targets.map((target) => ({ target, text }));
}

/** A notice names nothing of this service: whoever reads it may be anybody. */
function failureText(outcome: Outcome, says: "notice" | "reason"): string {
  const notice =
    outcome.status === "failed"
      ? "The agent could not finish this."
      : "The agent was interrupted and did not finish this.";
  const reason = says === "reason" ? reasonOf(outcome) : undefined;
  return reason === undefined ? notice : `${notice} ${reason}`;
}

function reasonOf({ event }: Outcome): string | undefined {
  const { error, reason } = event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  return error?.message ?? reason;
}
