import { redact } from "../../base/observe/redact.ts";
import type { Delivery, DeliverySummary } from "../../webhook/deliveries/deliveries.ts";
import type { Evaluated, StageResult } from "../../webhook/receive/evaluate.ts";
import { toTable } from "../kit/table.ts";
import { oneLine } from "../sessions/text.ts";
import type { Posted } from "./home.ts";

/** The limit of one text. `--json` prints the whole text. */
const MAX_SHOWN_CHARACTERS = 4_000;

export function answerText(posted: Posted): string {
  if (posted.status === undefined) {
    return `  Error: ${oneLine(posted.error)}\n  Is the gateway running? Start it with \`agentd gateway\`.`;
  }
  const answer = `  Response (${posted.status}): ${oneLine(posted.body)}`;
  const isIgnored = posted.status === 200 && posted.body.includes('"ignored"');
  return isIgnored ? `${answer}\n  See why with --dry-run, or send another event type with --event.` : answer;
}

/** Formats a dry run: each stage and the rendered prompt. */
export function evaluationText(evaluated: Evaluated): string {
  const { stages, subject, stop, text } = evaluated;
  return [
    `  Event: ${oneLine(subject.event)}`,
    ...stages.map((each) => `  ${stageLine(each)}`),
    ...(stop ? [`  The response would be ${stop.status}: ${JSON.stringify(stop.body)}`] : []),
    ...(text === undefined ? [] : ["", block(redact(text))]),
  ].join("\n");
}

export function evaluationJson({ stages, subject, stop, text, deliveryId }: Evaluated): object {
  return {
    event: subject.event,
    delivery_id: deliveryId,
    stages,
    answer: stop ? { status: stop.status, body: stop.body } : null,
    rendered: text === undefined ? null : redact(text),
  };
}

export function deliveriesTable(list: readonly DeliverySummary[]): string {
  const rows = list.map((each) => [
    each.id,
    new Date(each.createdAtMs).toISOString(),
    each.route,
    oneLine(each.event),
    each.status,
    oneLine(each.reason ?? ""),
  ]);
  return toTable(["ID", "TIME", "ROUTE", "EVENT", "STATUS", "REASON"], rows);
}

export function summaryJson(each: DeliverySummary): Readonly<Record<string, unknown>> {
  return {
    id: each.id,
    route: each.route,
    delivery_id: each.deliveryId,
    event: each.event,
    status: each.status,
    reason: each.reason ?? null,
    run_id: each.runId ?? null,
    outbox_id: each.outboxId ?? null,
    replay_of: each.replayOf ?? null,
    created_at: new Date(each.createdAtMs).toISOString(),
    ended_at: each.endedAtMs === undefined ? null : new Date(each.endedAtMs).toISOString(),
  };
}

/** The run of a delivery, and its outbox messages, one per target. */
export interface DeliveryOutcome {
  readonly run: { readonly id: string; readonly status: string } | undefined;
  readonly messages: readonly PendingMessage[];
}

interface PendingMessage {
  readonly id: string;
  readonly target: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string | null;
  /** When the next attempt is due; null for none. */
  readonly due_at: string | null;
}

export function deliveryJson(delivery: Delivery, { run, messages }: DeliveryOutcome): object {
  const { stages, headers, payload, rendered } = delivery;
  return {
    ...summaryJson(delivery),
    stages,
    headers,
    payload: payload === undefined ? null : redact(payload),
    rendered: rendered ?? null,
    run: run ?? null,
    messages,
  };
}

export function deliveryText(delivery: Delivery, { run, messages }: DeliveryOutcome): string {
  const facts = Object.entries(summaryJson(delivery)).flatMap(([name, value]) =>
    value === null || name === "run_id" || name === "outbox_id"
      ? []
      : [`${name.padEnd(11)} ${oneLine(String(value))}`],
  );
  return [
    ...facts,
    ...(run ? [`run         ${run.id} ${run.status}`] : []),
    ...messages.map((message) => `message     ${messageLine(message)}`),
    "",
    "Stages:",
    ...delivery.stages.map((each) => `  ${stageLine(each)}`),
    "",
    "Headers:",
    ...Object.entries(delivery.headers).map(([name, value]) => `  ${name}: ${oneLine(value)}`),
    ...section("Payload", delivery.payload === undefined ? "(not kept)" : redact(delivery.payload)),
    ...(delivery.rendered === undefined ? [] : section("Rendered", delivery.rendered)),
  ].join("\n");
}

function messageLine({ id, target, status, attempts, error, due_at: dueAt }: PendingMessage): string {
  const attemptLog = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  const due = dueAt === null ? "" : `, next at ${dueAt}`;
  // After delivery, earlier errors do not matter.
  const why = error === null || status === "delivered" ? "" : `, ${error}`;
  return oneLine(`${id} to ${redact(target)}: ${status}, ${attemptLog}${due}${why}`);
}

function stageLine({ stage, result, detail }: StageResult): string {
  return `${stage.padEnd(9)} ${result}${detail === undefined ? "" : `  ${oneLine(detail)}`}`;
}

function section(title: string, text: string): readonly string[] {
  return ["", `${title}:`, block(text)];
}

/** Keeps the lines and makes control characters visible. */
function block(text: string): string {
  const shown = text.slice(0, MAX_SHOWN_CHARACTERS);
  const left = text.length - shown.length;
  const lines = shown.split(/\r?\n/).map((line) => `  ${visible(line)}`);
  return [...lines, ...(left > 0 ? [`  (${left} more characters; see --json)`] : [])].join("\n");
}

/** Returns a line with its indentation. */
function visible(line: string): string {
  const [, indent = "", rest = ""] = /^(\s*)(.*)$/s.exec(line) ?? [];
  return indent.replaceAll(/[^ \t]/g, "") + oneLine(rest);
}
