/** The file that keeps what came of an occurrence. Pure. */
import type { Ending } from "./ending.ts";
import { wallTime } from "./output-name.ts";
import type { DeliveryPlan } from "./plan.ts";

export function outputDocument(plan: DeliveryPlan, { status, text }: Ending): string {
  return [
    `# Cron Job: ${plan.jobName}`,
    "",
    `**Job ID:** ${plan.jobId}`,
    `**Run Time:** ${wallTime(plan.atMs, plan.zone)} (${plan.zone})`,
    `**Schedule:** ${plan.schedule}`,
    "",
    "## Prompt",
    "",
    plan.prompt,
    "",
    status === "ok" ? "## Response" : "## Error",
    "",
    text,
    "",
  ].join("\n");
}
