import type { Delivery, DeliveryStage, Message, Run, WebhookResult } from "../../client/http.ts";
import { listTime } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";
import type { Posted } from "./sender.ts";

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
export function resultText(result: WebhookResult): string {
  const { event, stages, http_status: status, body, rendered } = result;
  const isStopped = stages.some((stage) => stage.result === "stop");
  return [
    `  Event: ${oneLine(event)}`,
    ...stages.map((each) => `  ${stageLine(each)}`),
    ...(isStopped && status !== null ? [`  The response would be ${status}: ${JSON.stringify(body)}`] : []),
    ...(isStopped ? [] : planLines(result)),
    ...(rendered === null ? [] : ["", block(rendered)]),
  ].join("\n");
}

/** The agent answers later, so the sender gets 202. */
const ACCEPTED = 202;

function planLines({
  http_status: status,
  targets,
  issues,
  missing_fields: missing,
}: WebhookResult): readonly string[] {
  if (targets.length === 0) return [];
  const what = status === ACCEPTED ? "The agent's answer" : "This message";
  return [
    `  ${what} would go to ${oneLine(targets.join(", "))}`,
    ...issues.map((issue) => `  Problem: ${oneLine(issue.replace(/\.$/, ""))}.`),
    ...(missing.length === 0
      ? []
      : [`  The payload has no ${oneLine(missing.join(", "))}: the text stays as it is written.`]),
  ];
}

export const DELIVERY_HEAD = ["ID", "TIME", "ROUTE", "EVENT", "STATUS", "REASON"] as const;

/** Returns the cells of a delivery in a table with {@link DELIVERY_HEAD}. */
export function deliveryCells(each: Delivery, nowMs: number): readonly string[] {
  const time = listTime(each.created_at * 1000, nowMs);
  return [each.id, time, each.route, oneLine(each.event), each.status, oneLine(each.reason ?? "")];
}

/** A delivery with its run, if that is still kept, and its messages, one per target. */
export interface WholeDelivery extends Delivery {
  readonly run: Run | null;
  readonly messages: readonly Message[];
}

export function deliveryText({ run, messages, ...delivery }: WholeDelivery): string {
  const facts: readonly (readonly [string, string | null])[] = [
    ["id", delivery.id],
    ["route", delivery.route],
    ["delivery_id", delivery.delivery_id],
    ["event", delivery.event],
    ["status", delivery.status],
    ["reason", delivery.reason],
    ["replay_of", delivery.replay_of],
    ["created_at", iso(delivery.created_at)],
    ["ended_at", delivery.ended_at === null ? null : iso(delivery.ended_at)],
  ];
  return [
    ...facts.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(11)} ${oneLine(value)}`])),
    ...(run ? [`run         ${run.run_id} ${run.status}`] : []),
    ...messages.map((message) => `message     ${messageLine(message)}`),
    ...(messages.length === 0
      ? []
      : [`            the text: \`agentd outbox show ${messages[0]?.id} --text\``]),
    "",
    "Stages:",
    ...(delivery.stages ?? []).map((each) => `  ${stageLine(each)}`),
    "",
    "Headers:",
    ...Object.entries(delivery.headers ?? {}).map(([name, value]) => `  ${name}: ${oneLine(value)}`),
    ...(delivery.rendered === null ? [] : section("Rendered", delivery.rendered)),
    ...answerLines(run),
    ...(run?.error ? section("Error", run.error.message) : []),
    ...section("Payload", delivery.payload ?? "(not kept)", { max: MAX_PAYLOAD_CHARACTERS }),
  ].join("\n");
}

/** Returns the answer of the agent, or why there is none. */
function answerLines(run: Run | null): readonly string[] {
  if (!run) return [];
  if (run.output) return section("Answer", run.output);
  if (run.error !== null) return [];
  const isOver = run.status === "completed";
  return [
    "",
    isOver ? "Answer: (empty)" : `Answer: none yet. Follow it with \`agentd runs follow ${run.run_id}\`.`,
  ];
}

export function messageLine({
  id,
  target,
  status,
  attempts,
  last_error: error,
  due_at: due,
}: Message): string {
  const count = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  const next = due === null ? "" : `, next at ${iso(due)}`;
  // After delivery, earlier errors do not matter.
  const why = error === null || status === "delivered" ? "" : `, ${error}`;
  return oneLine(`${id} to ${target}: ${status}, ${count}${next}${why}`);
}

export function stageLine({ stage, result, detail }: DeliveryStage): string {
  return `${stage.padEnd(9)} ${result}${detail === null ? "" : `  ${oneLine(detail)}`}`;
}

export function iso(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
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
