/** Enqueues the webhook events of a run. */
import type { Tx, Store } from "../../store/store.ts";
import type { RunRow, QuestionRow } from "../../store/schema/tables.ts";
import { type Outcome, parseInput, type RunWebhookEvent, type RunWebhook } from "./run.ts";
import type {
  RunError,
  RunUsage,
  WebhookEvent,
  WebhookEventData,
} from "../../../generated/http/client/types.gen.ts";
import { createId } from "../../base/text.ts";
import { redactValue } from "../../base/observe.ts";
import { toApprovalRequest, type QuestionKind } from "../question/question.ts";
import { nameOfId } from "../session/session.ts";

/** Longest output in an event; the run has all of it. */
const MAX_OUTPUT_BYTES = 65_536;
const usual: readonly RunWebhookEvent[] = ["completed", "failed", "cancelled", "interrupted"];

/** Enqueues the webhook event of a run's end, in the transaction that ends the run. */
export async function enqueueEndWebhook(tx: Tx, store: Store, run: RunRow, outcome: Outcome): Promise<void> {
  const { status, set } = outcome;
  const output = set.output ?? null;
  const stop = stopOf(outcome);
  await enqueueRunWebhook(tx, store, run, {
    event: status,
    type: run.kind === "response" ? `response.${responseStatus(outcome)}` : `run.${status}`,
    data: {
      status,
      ...(stop === undefined ? {} : { stop }),
      ...(output === null ? {} : bounded(output)),
      ...(set.usage ? { usage: JSON.parse(set.usage) as RunUsage } : {}),
      ...(set.error ? { error: JSON.parse(set.error) as RunError } : {}),
    },
  });
}

/** Enqueues the webhook event of a question, in the transaction that asks it. */
export async function enqueueQuestionWebhook(tx: Tx, store: Store, question: QuestionRow): Promise<void> {
  const run = await tx.find("runs", { id: question.run_id });
  if (!run || run.webhook === null) return;
  // A question may be private (the purpose of a password): the event of other questions names only their kind.
  const approval = question.kind === "approval" ? { approval: toApprovalRequest(question) } : {};
  await enqueueRunWebhook(tx, store, run, {
    event: "approval_required",
    type: "run.approval_required",
    data: {
      status: "waiting_for_approval",
      request_id: question.id,
      request_kind: question.kind as QuestionKind,
      ...approval,
    },
  });
}

interface RunWebhookInput {
  /** The name to which webhooks subscribe. */
  readonly event: RunWebhookEvent;
  readonly type: WebhookEvent["type"];
  readonly data: Omit<WebhookEventData, "id" | "run_id" | "session_id">;
}

/** Enqueues an event if the run's webhook subscribes to it. All attempts have the same event id. */
async function enqueueRunWebhook(tx: Tx, store: Store, run: RunRow, input: RunWebhookInput): Promise<void> {
  if (run.webhook === null) return;
  const { url, secret, events = usual, maxAttempts } = JSON.parse(run.webhook) as RunWebhook;
  if (!events.includes(input.event)) return;
  const id = createId("evt", tx.nowMs);
  const { traceparent } = parseInput(run);
  const response = run.response_id === null ? {} : { id: run.response_id };
  const data: WebhookEventData = {
    ...response,
    run_id: run.id,
    session_id: nameOfId(run.session_id),
    ...input.data,
  };
  const event: WebhookEvent = {
    id,
    object: "event",
    type: input.type,
    created_at: Math.floor(tx.nowMs / 1000),
    data: redactValue(data) as WebhookEventData,
  };
  await store.outbox.enqueue(tx, {
    owner: run.owner,
    target: `webhook:${new URL(url).host}`,
    payload: { id, url, secret, body: JSON.stringify(event), traceparent },
    ref: run.id,
    maxAttempts,
  });
}

/** Returns the status in OpenAI's vocabulary, which has no `interrupted`. */
function responseStatus(outcome: Outcome): "completed" | "incomplete" | "failed" | "cancelled" {
  if (outcome.status === "interrupted") return "failed";
  if (outcome.status !== "completed") return outcome.status;
  const stop = stopOf(outcome);
  return stop === "end" || stop === "tool_calls" ? "completed" : "incomplete";
}

function stopOf({ event }: Outcome): string | undefined {
  return (event.data as { readonly stop?: string }).stop;
}

/** Truncates the output between characters, and marks it as truncated. */
function bounded(output: string): { readonly output: string; readonly output_truncated?: true } {
  const { read } = new TextEncoder().encodeInto(output, new Uint8Array(MAX_OUTPUT_BYTES));
  return read === output.length ? { output } : { output: output.slice(0, read), output_truncated: true };
}
