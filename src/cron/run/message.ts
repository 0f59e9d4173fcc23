/** What people are told of a job. Pure. */
import { redact } from "../../base/observe/redact.ts";
import { cleanText, toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "./ending.ts";
import type { DeliveryPlan } from "./plan.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

/** What stands in the store and not in the plan. */
export interface Around {
  /** Times that a run that catches up stands for, itself not counted. */
  readonly missedCount?: number;
  /** Failures in a row, this one included. */
  readonly failureStreak?: number;
  /** True: whoever reads it may be anybody, and does not learn why the service failed. */
  readonly hidesReason?: boolean;
}

/** From so many failures in a row on people are told what to do. */
const NUDGE_STREAK = 3;

/** The message about an occurrence that has ended: without secrets, and as the plan says with the job's name around it. */
export function messageText(plan: DeliveryPlan, ending: Ending, jobContext: Around = {}): string {
  const text = ending.status === "ok" ? ending.text : failureText(plan, ending, jobContext);
  return safely(plan.jobId, () => (plan.wraps ? wrapText(plan, text, jobContext) : text));
}

/** The message about a job whose one time nobody saw. */
export function missedText(plan: DeliveryPlan): string {
  return safely(plan.jobId, () => {
    const { jobId, scheduledAtMs, atMs, zone } = plan;
    const lateness = durationText(atMs - scheduledAtMs);
    const text = [
      `The job ${titleOf(plan)} did not run: no scheduler was at work at its time, ${zonedTime(scheduledAtMs, zone)}, and it was found ${lateness} late.`,
      `It was to run once, so it is not made up for. Give it a new time with \`agentd cron edit ${jobId}\`, or remove it with \`agentd cron remove ${jobId}\`.`,
    ].join("\n");
    return plan.wraps ? wrapText({ ...plan, timing: "on_time" }, text, {}) : text;
  });
}

/** A message that might hold a secret is not sent. */
export function safely(
  jobId: string,
  compose: () => string,
  clean: (text: string) => string = cleanText,
): string {
  try {
    return clean(compose());
  } catch {
    return `The job ${jobId} has ended. Its text is held back, since it could not be cleared of secrets; \`agentd cron runs ${jobId}\` tells how it went.`;
  }
}

/** Names are people's own, and may be blank or longer than a line. */
export function titleOf({ jobName, jobId }: Pick<DeliveryPlan, "jobName" | "jobId">): string {
  return redact(jobName).replace(/\s+/g, " ").trim() || jobId;
}

/** For columns that people see: without secrets, and nothing that a database would refuse. */
export function clip(text: string, characters: number): string {
  try {
    return toReadable(toReadable(redact(text)).slice(0, Math.max(0, characters))).trim();
  } catch {
    // An end is not held up by what would say why.
    return "The reason is held back, since it could not be cleared of secrets.";
  }
}

function wrapText(plan: DeliveryPlan, text: string, jobContext: Around): string {
  const { jobId } = plan;
  const label = labelOf(plan, jobContext);
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

/** That it comes at another time than people expect it. */
function labelOf(
  { timing, scheduledAtMs, atMs }: DeliveryPlan,
  { missedCount = 0 }: Around,
): string | undefined {
  const late = `late by ${durationText(atMs - scheduledAtMs)}`;
  if (timing === "late") return late;
  if (timing !== "catch_up") return undefined;
  if (missedCount === 0) return late;
  return `${late}; it makes up for ${missedCount} missed ${missedCount === 1 ? "time" : "times"}`;
}

function failureText(plan: DeliveryPlan, ending: Ending, jobContext: Around): string {
  const { status, text, isSaid = false } = ending;
  const { failureStreak = 0, hidesReason = false } = jobContext;
  const { jobId } = plan;
  const how = status === "unknown" ? "was cut off" : "failed";
  if (hidesReason && !isSaid) return `The job ${titleOf(plan)} ${how}. ${undoneText(plan, status)}`;
  const nudge = `It has failed ${failureStreak} times in a row: mend it (\`agentd cron edit ${jobId}\`), or pause it (\`agentd cron pause ${jobId}\`).`;
  return [
    `The job ${titleOf(plan)} ${how}: ${text}`,
    `${undoneText(plan, status)} See \`agentd cron runs ${jobId}\`.`,
    ...(failureStreak >= NUDGE_STREAK ? [nudge] : []),
  ].join("\n\n");
}

function undoneText({ isOnce, cause }: DeliveryPlan, status: Ending["status"]): string {
  const what = status === "unknown" ? "How much of it was done is not known" : "It has no answer to deliver";
  if (isOnce || cause === "manual") return `${what}, and it is not tried again by itself.`;
  return `${what}, and it is not tried again before its next time.`;
}

const MINUTE_MS = 60_000;
const UNITS = [
  { ms: 1440 * MINUTE_MS, name: "days" },
  { ms: 60 * MINUTE_MS, name: "h" },
  { ms: MINUTE_MS, name: "min" },
] as const;

/** In the largest unit of which there are at least two. */
export function durationText(ms: number): string {
  const unit = UNITS.find((each) => ms >= 2 * each.ms);
  if (!unit) return `${Math.max(0, Math.round(ms / 1000))} s`;
  return `${Math.floor(ms / unit.ms)} ${unit.name}`;
}
