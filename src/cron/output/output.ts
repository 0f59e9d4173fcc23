/** The file that keeps what came of an occurrence. Pure. */
import { toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "../run/ending.ts";
import { safely, titleOf } from "../run/message.ts";
import type { DeliveryPlan } from "../run/plan.ts";
import { wallTime } from "../schedule/zoned-time.ts";

/** What is owed to the target that keeps outputs. */
export interface KeptOutput {
  readonly jobId: string;
  readonly file: string;
  readonly text: string;
}

/** Undefined: the payload is none. Whether its names are safe is the target's to judge. */
export function readKeptOutput(payload: unknown): KeptOutput | undefined {
  const { jobId, file, text } = Object(payload) as Partial<Record<keyof KeptOutput, unknown>>;
  if (typeof jobId !== "string" || typeof file !== "string" || typeof text !== "string") return undefined;
  return { jobId, file, text };
}

export function keptOutput(plan: DeliveryPlan, ending: Ending): KeptOutput {
  const { jobId, outputFile: file } = plan;
  return { jobId, file, text: `${safely(jobId, () => outputDocument(plan, ending)).trimEnd()}\n` };
}

const RESPONSE = "## Response";

function outputDocument(plan: DeliveryPlan, { status, text }: Ending): string {
  return [
    `# Cron Job: ${titleOf(plan)}`,
    "",
    `**Job ID:** ${plan.jobId}`,
    `**Run Time:** ${wallTime(plan.atMs, plan.zone)} (${plan.zone})`,
    `**Schedule:** ${plan.schedule}`,
    "",
    "## Prompt",
    "",
    withoutHeadings(plan.prompt),
    "",
    status === "ok" ? RESPONSE : "## Error",
    "",
    text,
  ].join("\n");
}

/** What follows a heading of ours in a prompt must not pass for an answer: whoever reads the file takes the first. */
function withoutHeadings(prompt: string): string {
  // Characters that the document loses would hide one.
  return toReadable(prompt).replace(/^(?=## (?:Response|Error)\s*$)/gm, "\\");
}

/** The answer in such a file; undefined of a failure, or of a file of another form. */
export function responseOf(document: string): string | undefined {
  const [, heading, text] = /^## (Response|Error)\s*?\n(.*)/ms.exec(document.replaceAll("\r\n", "\n")) ?? [];
  return heading === "Response" ? text?.trim() : undefined;
}
