/** The messages about the occurrences of a job. Pure. */
import { redact } from "../../base/observe/redact.ts";
import { cleanText, toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "./ending.ts";
import type { DeliveryPlan } from "./plan.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

/** What the store knows and the plan does not. */
export interface MessageContext {
  /** Instants that a run that catches up replaces, without its own. */
  readonly missedCount?: number;
  /** Failures in a row, including this one. */
  readonly failureStreak?: number;
  /** True: anyone may read the message, so it does not say why the service failed. */
  readonly hidesReason?: boolean;
}

/** After this many failures in a row the message says what to do. */
const HINT_STREAK = 3;

/** Returns the message about an ended occurrence, without secrets and, when the plan says so, with a header and a footer. */
export function messageText(plan: DeliveryPlan, ending: Ending, context: MessageContext = {}): string {
  const text = ending.status === "ok" ? ending.text : failureText(plan, ending, context);
  return safely(plan.jobId, () => (plan.wraps ? wrapText(plan, text, context) : text));
}

/** Returns the message about a one-shot that was missed. */
export function missedText(plan: DeliveryPlan): string {
  return safely(plan.jobId, () => {
    const { jobId, scheduledAtMs, atMs, zone } = plan;
    const lateness = durationText(atMs - scheduledAtMs);
    const text = [
      `The job ${titleOf(plan)} did not run: no scheduler was running at its time, ${zonedTime(scheduledAtMs, zone)}, and it was found ${lateness} late.`,
      `A job that runs once does not catch up. Set a new time with \`agentd cron edit ${jobId}\`, or remove it with \`agentd cron remove ${jobId}\`.`,
    ].join("\n");
    return plan.wraps ? wrapText({ ...plan, timing: "on_time" }, text, {}) : text;
  });
}

/** Returns a text, or a replacement when its secrets cannot be redacted. */
export function safely(
  jobId: string,
  compose: () => string,
  clean: (text: string) => string = cleanText,
): string {
  try {
    return clean(compose());
  } catch {
    return `The job ${jobId} has ended. Its text is withheld because its secrets could not be redacted. See \`agentd cron runs ${jobId}\`.`;
  }
}

/** Returns the name of the job in one line, or its id when the name is blank. */
export function titleOf({ jobName, jobId }: Pick<DeliveryPlan, "jobName" | "jobId">): string {
  return redact(jobName).replace(/\s+/g, " ").trim() || jobId;
}

/** Returns a text for a column: without secrets, and without what a database would refuse. */
export function clip(text: string, characters: number): string {
  try {
    return toReadable(toReadable(redact(text)).slice(0, Math.max(0, characters))).trim();
  } catch {
    // A reason that cannot be redacted must not keep the occurrence from ending.
    return "The reason is withheld because its secrets could not be redacted.";
  }
}

function wrapText(plan: DeliveryPlan, text: string, context: MessageContext): string {
  const { jobId } = plan;
  const label = labelOf(plan, context);
  return [
    `Cronjob Response: ${titleOf(plan)}`,
    `(job_id: ${jobId})`,
    ...(label === undefined ? [] : [`(${label})`]),
    "-------------",
    "",
    text,
    "",
    `To stop or manage this job: agentd cron pause ${jobId}, or agentd cron remove ${jobId}.`,
  ].join("\n");
}

/** Returns why the message comes later than people expect. */
function labelOf(
  { timing, scheduledAtMs, atMs }: DeliveryPlan,
  { missedCount = 0 }: MessageContext,
): string | undefined {
  const late = `late by ${durationText(atMs - scheduledAtMs)}`;
  if (timing === "late") return late;
  if (timing !== "catch_up") return undefined;
  if (missedCount === 0) return late;
  return `${late}; it replaces ${missedCount} missed ${missedCount === 1 ? "time" : "times"}`;
}

function failureText(plan: DeliveryPlan, ending: Ending, context: MessageContext): string {
  const { status, text, isFromAgent = false } = ending;
  const { failureStreak = 0, hidesReason = false } = context;
  const { jobId } = plan;
  const how = status === "unknown" ? "was cut off" : "failed";
  if (hidesReason && !isFromAgent) return `The job ${titleOf(plan)} ${how}. ${consequenceOf(plan, status)}`;
  const hint = `It has failed ${failureStreak} times in a row. Change it (\`agentd cron edit ${jobId}\`) or pause it (\`agentd cron pause ${jobId}\`).`;
  return [
    `The job ${titleOf(plan)} ${how}: ${text}`,
    `${consequenceOf(plan, status)} See \`agentd cron runs ${jobId}\`.`,
    ...(failureStreak >= HINT_STREAK ? [hint] : []),
  ].join("\n\n");
}

function consequenceOf({ isOnce, cause }: DeliveryPlan, status: Ending["status"]): string {
  const what = status === "unknown" ? "How much of it was done is unknown" : "It has no answer to deliver";
  if (isOnce || cause === "manual") return `${what}, and it is not retried.`;
  return `${what}, and it is not retried before its next time.`;
}

const MINUTE_MS = 60_000;
const UNITS = [
  { ms: 1440 * MINUTE_MS, name: "days" },
  { ms: 60 * MINUTE_MS, name: "h" },
  { ms: MINUTE_MS, name: "min" },
] as const;

/** Returns a duration in the largest unit that it contains at least twice. */
export function durationText(ms: number): string {
  const unit = UNITS.find((each) => ms >= 2 * each.ms);
  if (!unit) return `${Math.max(0, Math.round(ms / 1000))} s`;
  return `${Math.floor(ms / unit.ms)} ${unit.name}`;
}
