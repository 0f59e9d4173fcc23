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

/** Who is told of a run, when: the text in its row. */
export interface RunWebhook {
  readonly url: string;
  /** `whsec_<base64>` or plain text. Absent: the configured one of the moment of sending. */
  readonly secret?: string;
  /** Absent: all but approval_required. */
  readonly events?: readonly RunWebhookEvent[];
  /** Tries for each event. */
  readonly maxAttempts: number;
}

export type RunWebhookEvent = FinalStatus | "approval_required";

export interface WebhookSettings {
  /** Whether the configuration has a secret for those who bring none. */
  readonly hasSecret: boolean;
  /** Hosts (`name` or `name:port`) that may be told although they are not public. */
  readonly allowedPrivateHosts: readonly string[];
  readonly maxAttempts: number;
}

const MAX_URL_CHARACTERS = 2_048;
const MIN_SECRET_CHARACTERS = 16;
const MAX_SECRET_CHARACTERS = 256;
/** Most of a run's answer that an event carries; all of it stands in the run. */
const MAX_OUTPUT_BYTES = 65_536;
const usual: readonly RunWebhookEvent[] = ["completed", "failed", "cancelled", "interrupted"];

/**
 * What a client asks for, as it goes with the run. `param` names the field. Throws as {@link checkWebhook}.
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
 * ServiceError `invalid_request` for an address that is not to be told or a secret that cannot sign,
 * `missing_required_parameter` when nothing can sign. Where the address leads is looked at again, and for good,
 * whenever something is sent there.
 */
export function checkWebhook(webhook: Webhook, settings: WebhookSettings, param: string): void {
  checkUrl(webhook.url, settings, `${param}.url`);
  checkSecret(webhook.secret, settings, `${param}.secret`);
}

/** Owes the event of a run's end to who asked for it, in the transaction that ends the run. */
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

/** Owes the event of a question that a run waits with, in the transaction that asks it. */
export async function enqueueQuestionWebhook(tx: Tx, store: Store, ask: QuestionRow): Promise<void> {
  const run = await tx.find("runs", { id: ask.run_id });
  if (!run || run.webhook === null) return;
  // What is asked may be private (a password's purpose): the event of other questions names their kind alone.
  const approval = ask.kind === "approval" ? { approval: toApprovalRequest(ask) } : {};
  await enqueueRunWebhook(tx, store, run, {
    event: "approval_required",
    type: "run.approval_required",
    data: {
      status: "waiting_for_approval",
      request_id: ask.id,
      request_kind: ask.kind as QuestionKind,
      ...approval,
    },
  });
}

interface RunFact {
  /** What is subscribed to. */
  readonly event: RunWebhookEvent;
  readonly type: WebhookEvent["type"];
  readonly data: Omit<WebhookEventData, "id" | "run_id" | "session_id">;
}

/** Owes an event to the run's webhook if that wants it. The id of the event is the same for every attempt. */
async function enqueueRunWebhook(tx: Tx, store: Store, run: RunRow, fact: RunFact): Promise<void> {
  if (run.webhook === null) return;
  const { url, secret, events = usual, maxAttempts } = JSON.parse(run.webhook) as RunWebhook;
  if (!events.includes(fact.event)) return;
  const id = createId("evt", tx.nowMs);
  const { traceparent } = parseInput(run);
  const response = run.response_id === null ? {} : { id: run.response_id };
  const data: WebhookEventData = {
    ...response,
    run_id: run.id,
    session_id: nameOfId(run.session_id),
    ...fact.data,
  };
  const event: WebhookEvent = {
    id,
    object: "event",
    type: fact.type,
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

/** The words of OpenAI, which knows no interruption. */
function responseStatus(outcome: Outcome): "completed" | "incomplete" | "failed" | "cancelled" {
  if (outcome.status === "interrupted") return "failed";
  if (outcome.status !== "completed") return outcome.status;
  const stop = stopOf(outcome);
  return stop === "end" || stop === "tool_calls" ? "completed" : "incomplete";
}

function stopOf({ event }: Outcome): string | undefined {
  return (event.data as { readonly stop?: string }).stop;
}

/** Cut between characters, and said so. */
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
  throw refused(`${url.host} cannot be told: it is ${objection}. ${hint}`, param);
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
