import type {
  RunError,
  RunUsage,
  Webhook,
  WebhookEvent,
  WebhookEventData,
} from "../../../generated/http/client/types.gen.ts";
import { ServiceError, type ErrorCode } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { objectionToHost } from "../../base/net/guard.ts";
import { redactValue } from "../../base/observe/redact.ts";
import { isWebhookSecret } from "../../base/net/standard-webhook.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { QuestionRow, RunRow } from "../../store/schema/tables.ts";
import type { Outcome } from "../run/outcome.ts";
import { toApprovalRequest, type QuestionKind } from "../question/question.ts";
import { parseInput, type FinalStatus } from "../run/run.ts";
import { nameOfId } from "../session/session.ts";

/** The webhook of a run, stored as JSON in its row. */
export interface RunWebhook {
  readonly url: string;
  /** `whsec_<base64>` or plain text. Absent: the secret configured when the event is sent. */
  readonly secret?: string;
  /** Absent: all but approval_required. */
  readonly events?: readonly RunWebhookEvent[];
  /** Attempts for each event. */
  readonly maxAttempts: number;
}

export type RunWebhookEvent = FinalStatus | "approval_required";

export interface WebhookSettings {
  /** Whether the configuration has a default secret. */
  readonly hasSecret: boolean;
  /** Hosts (`name` or `name:port`) that may get webhooks although they are not public. */
  readonly allowedPrivateHosts: readonly string[];
  readonly maxAttempts: number;
}

const MAX_URL_CHARACTERS = 2_048;
const MIN_SECRET_CHARACTERS = 16;
const MAX_SECRET_CHARACTERS = 256;
/** Longest output in an event; the run has all of it. */
const MAX_OUTPUT_BYTES = 65_536;
const usual: readonly RunWebhookEvent[] = ["completed", "failed", "cancelled", "interrupted"];

/**
 * Returns the webhook of a request as it is stored with the run. `param` names the field. Throws as {@link checkWebhook}.
 */
export function recordWebhook(
  webhook: Webhook,
  settings: WebhookSettings,
  { param }: { readonly param: string },
): string {
  checkWebhook(webhook, settings, param);
  const { url, secret, events } = webhook;
  const record: RunWebhook = {
    url,
    ...(secret === undefined ? {} : { secret }),
    ...(events === undefined ? {} : { events }),
    maxAttempts: settings.maxAttempts,
  };
  return JSON.stringify(record);
}

/**
 * Throws ServiceError `invalid_request` for an address that is not allowed or a secret that cannot sign,
 * `missing_required_parameter` without any secret. Each send checks the resolved address again.
 */
export function checkWebhook(webhook: Webhook, settings: WebhookSettings, param: string): void {
  checkUrl(webhook.url, settings, `${param}.url`);
  checkSecret(webhook.secret, settings, `${param}.secret`);
}

/** Enqueues the webhook event of a run's end, in the transaction that ends the run. */
export async function enqueueEndWebhook(tx: Tx, store: Store, run: RunRow, outcome: Outcome): Promise<void> {
  const { status, set } = outcome;
  if (run.webhook === null) return;
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

function checkUrl(text: string, settings: WebhookSettings, param: string): void {
  if (text.length > MAX_URL_CHARACTERS) {
    throw refused(`The address is longer than ${MAX_URL_CHARACTERS} characters.`, param);
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw refused("The address must be a whole https or http URL.", param);
  }
  if (url.username !== "" || url.password !== "") {
    throw refused(
      "Leave the user name and password out of the address; the signature proves who sends.",
      param,
    );
  }
  const objection = objectionToHost(url, settings.allowedPrivateHosts);
  if (objection === undefined) return;
  const hint = "The server's operator can allow it in api_server.webhook_allowed_hosts.";
  throw refused(`${url.host} cannot receive webhooks: it is ${objection}. ${hint}`, param);
}

function checkSecret(secret: string | undefined, { hasSecret }: WebhookSettings, param: string): void {
  if (secret === undefined) {
    if (hasSecret) return;
    const what = "Give a secret to sign with: this server has none of its own (api_server.webhook_secret).";
    throw refused(what, param, "missing_required_parameter");
  }
  if (secret.length < MIN_SECRET_CHARACTERS || secret.length > MAX_SECRET_CHARACTERS) {
    const range = `${MIN_SECRET_CHARACTERS} to ${MAX_SECRET_CHARACTERS}`;
    throw refused(`The secret must have ${range} characters.`, param);
  }
  if (!isWebhookSecret(secret)) throw refused("Behind whsec_ the secret must be base64.", param);
}

function refused(message: string, param: string, code: ErrorCode = "invalid_request"): ServiceError {
  return new ServiceError(code, message, { param });
}
