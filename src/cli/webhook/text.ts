import { redact } from "../../base/observe.ts";
import type { Delivery, DeliverySummary } from "../../webhook/deliveries/deliveries.ts";
import type { StageResult } from "../../webhook/receive/evaluate.ts";
import { listTime } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";
import type { Posted } from "./home.ts";
import { redactValue } from "../../base/observe.ts";
import type { DryRun, PlannedDelivery } from "../../webhook/deliveries/replay.ts";

/** The limit of one text. `--json` prints the whole text. */
const MAX_SHOWN_CHARACTERS = 4_000;
/** The payload comes last and is the longest: its results matter more. */
const MAX_PAYLOAD_CHARACTERS = 1_000;

export function answerText(posted: Posted): string {
  if (posted.status === undefined) {
    return `  Error: ${oneLine(posted.error)}\n  Is the gateway running? Start it with \`agentd gateway\`.`;
  }
  const answer = `  Response (${posted.status}): ${oneLine(posted.body)}`;
  const isIgnored = posted.status === 200 && posted.body.includes('"ignored"');
  return isIgnored ? `${answer}\n  See why with --dry-run, or send another event type with --event.` : answer;
}

/** Formats a dry run: each stage and the rendered prompt. */
export function evaluationText(dryRun: DryRun): string {
  const { stages, subject, stop, text, delivery } = dryRun;
  return [
    `  Event: ${oneLine(subject.event)}`,
    ...stages.map((each) => `  ${stageLine(each)}`),
    ...(stop ? [`  The response would be ${stop.status}: ${JSON.stringify(stop.body)}`] : []),
    ...(delivery ? planLines(delivery) : []),
    ...(text === undefined ? [] : ["", block(redact(text))]),
  ].join("\n");
}

function planLines({ kind, targets, extra, problems, missingFields }: PlannedDelivery): readonly string[] {
  const what = kind === "message" ? "This message" : "The agent's answer";
  const shown = Object.keys(extra).length === 0 ? "" : `, with ${oneLine(redact(JSON.stringify(extra)))}`;
  return [
    `  ${what} would go to ${oneLine(redact(targets.join(", ")))}${shown}`,
    ...problems.map((problem) => `  Problem: ${oneLine(problem)}.`),
    ...(missingFields.length === 0
      ? []
      : [`  The payload has no ${oneLine(missingFields.join(", "))}: the text stays as it is written.`]),
  ];
}

export function evaluationJson({ stages, subject, stop, text, deliveryId, delivery }: DryRun): object {
  return {
    event: subject.event,
    delivery_id: deliveryId,
    stages,
    answer: stop ? { status: stop.status, body: stop.body } : null,
    rendered: text === undefined ? null : redact(text),
    delivery: delivery
      ? {
          kind: delivery.kind,
          targets: delivery.targets.map(redact),
          extra: redactValue(delivery.extra),
          problems: delivery.problems,
          missing_fields: delivery.missingFields,
        }
      : null,
  };
}

export const DELIVERY_HEAD = ["ID", "TIME", "ROUTE", "EVENT", "STATUS", "REASON"] as const;

/** Returns the cells of a delivery in a table with {@link DELIVERY_HEAD}. */
export function deliveryCells(each: DeliverySummary, nowMs: number): readonly string[] {
  const time = listTime(each.createdAtMs, nowMs);
  return [each.id, time, each.route, oneLine(each.event), each.status, oneLine(each.reason ?? "")];
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
  readonly run: RunOutcome | undefined;
  readonly messages: readonly PendingMessage[];
}

interface RunOutcome {
  readonly id: string;
  readonly status: string;
  /** The agent's answer. */
  readonly output: string | null;
  /** Why the run failed. */
  readonly error: string | null;
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
    run: run ? { ...run, output: run.output === null ? null : redact(run.output) } : null,
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
    ...(messages.length === 0
      ? []
      : [`            the text: \`agentd outbox show ${messages[0]?.id} --text\``]),
    "",
    "Stages:",
    ...delivery.stages.map((each) => `  ${stageLine(each)}`),
    "",
    "Headers:",
    ...Object.entries(delivery.headers).map(([name, value]) => `  ${name}: ${oneLine(value)}`),
    ...(delivery.rendered === undefined ? [] : section("Rendered", delivery.rendered)),
    ...answerLines(run),
    ...(run?.error ? section("Error", redact(run.error)) : []),
    ...section("Payload", delivery.payload === undefined ? "(not kept)" : redact(delivery.payload), {
      max: MAX_PAYLOAD_CHARACTERS,
    }),
  ].join("\n");
}

export /** Returns the answer of the agent, or why there is none. */
function answerLines(run: RunOutcome | undefined): readonly string[] {
  if (!run) return [];
  if (run.output) return section("Answer", redact(run.output));
  if (run.error !== null) return [];
  const isOver = run.status === "completed";
  return [
    "",
    isOver ? "Answer: (empty)" : `Answer: none yet. Follow it with \`agentd runs follow ${run.id}\`.`,
  ];
}

function messageLine({ id, target, status, attempts, error, due_at: dueAt }: PendingMessage): string {
  const attemptLog = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  const due = dueAt === null ? "" : `, next at ${dueAt}`;
  // After delivery, earlier errors do not matter.
  const why = error === null || status === "delivered" ? "" : `, ${error}`;
  return oneLine(`${id} to ${redact(target)}: ${status}, ${attemptLog}${due}${why}`);
}

export function stageLine({ stage, result, detail }: StageResult): string {
  return `${stage.padEnd(9)} ${result}${detail === undefined ? "" : `  ${oneLine(detail)}`}`;
}

function section(title: string, text: string, limit: { readonly max?: number } = {}): readonly string[] {
  return ["", `${title}:`, block(text, limit)];
}

/** Keeps the lines and makes control characters visible. */
export function block(text: string, { max = MAX_SHOWN_CHARACTERS }: { readonly max?: number } = {}): string {
  const shown = text.slice(0, max);
  const left = text.length - shown.length;
  const lines = shown.split(/\r?\n/).map((line) => `  ${visible(line)}`);
  return [...lines, ...(left > 0 ? [`  (${left} more characters; see --json)`] : [])].join("\n");
}

/** Returns a line with its indentation. */
function visible(line: string): string {
  const [, indent = "", rest = ""] = /^(\s*)(.*)$/s.exec(line) ?? [];
  return indent.replaceAll(/[^ \t]/g, "") + oneLine(rest);
}
