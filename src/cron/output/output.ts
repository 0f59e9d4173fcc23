/** The output files of occurrences: their names and their text. Pure. */
import type { Cause } from "../tick/occurrence.ts";
import { wallTime } from "../schedule/zoned-time.ts";
import { toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "../run/ending.ts";
import { safely, titleOf } from "../run/message.ts";
import type { DeliveryPlan } from "../run/plan.ts";

/** The target that writes output files. It is not a platform, so that people cannot name it. */
export const OUTPUT_TARGET = "cron_output";

/**
 * Returns `YYYY-MM-DD_HH-MM-SS.md` in the local time of `zone`. Suffixes mark the second of two equal hours when clocks go
 * back, and runs outside the schedule, so that each run of a job has its own name.
 */
export function outputFileName({
  atMs,
  zone,
  cause,
}: {
  readonly atMs: number;
  readonly zone: string;
  readonly cause: Cause;
}): string {
  const time = wallTime(atMs, zone);
  // Scheduled runs are a minute apart; manual runs and retries may be closer.
  const why = cause === "schedule" ? "" : `_${cause}-${String(atMs % 1000).padStart(3, "0")}`;
  const isSecond = SHIFTS_MS.some((ms) => wallTime(atMs - ms, zone) === time);
  return `${time.replace(" ", "_").replaceAll(":", "-")}${isSecond ? "_second" : ""}${why}.md`;
}

/** All amounts by which clocks go back. */
const SHIFTS_MS = [7_200_000, 3_600_000, 1_800_000] as const;

/** Whether `name` can be an output file: it cannot leave its folder. */
export function isOutputFileName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md$/.test(name);
}

/** Whether `id` can name a folder of outputs. */
export function isJobFolderName(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id);
}

/** The payload of the output target. */
export interface KeptOutput {
  readonly jobId: string;
  readonly file: string;
  readonly text: string;
}

/** Undefined when the payload is not an output. The caller checks that its names are safe. */
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

/** Escapes our headings in a prompt: {@link responseOf} takes the first heading for the answer. */
function withoutHeadings(prompt: string): string {
  // Removed first: an invisible character could hide a heading.
  return toReadable(prompt).replace(/^(?=## (?:Response|Error)\s*$)/gm, "\\");
}

/** Returns the answer in an output file; undefined for a failure, or another kind of file. */
export function responseOf(document: string): string | undefined {
  const [, heading, text] = /^## (Response|Error)\s*?\n(.*)/ms.exec(document.replaceAll("\r\n", "\n")) ?? [];
  return heading === "Response" ? text?.trim() : undefined;
}
