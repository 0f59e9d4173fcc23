/** What people are told of a job. Pure. */
import type { Ending } from "./ending.ts";
import type { DeliveryPlan } from "./plan.ts";

/** The text with the name and the id of its job around it, unless that is switched off. */
export function wrapText({ wraps, jobName, jobId }: DeliveryPlan, text: string): string {
  if (!wraps) return text;
  return [
    `Cronjob Response: ${jobName}`,
    `(job_id: ${jobId})`,
    "-------------",
    "",
    text,
    "",
    `To stop or manage this job: agentd cron pause ${jobId}, or agentd cron remove ${jobId}.`,
  ].join("\n");
}

export function failureText({ jobName }: DeliveryPlan, { status, text }: Ending): string {
  const how = status === "unknown" ? "was cut off, and it is not known what it did" : "failed";
  return `The job ${jobName} ${how}: ${text}`;
}
