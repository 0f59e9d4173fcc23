/** Names of the files that outputs are kept in. Pure. */
import type { Cause } from "../tick/occurrence.ts";
import { wallTime } from "../schedule/zoned-time.ts";
import { toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "../run/ending.ts";
import { safely, titleOf } from "../run/message.ts";
import type { DeliveryPlan } from "../run/plan.ts";

/** Keeps outputs as files. People cannot name it: it is no platform. */
export const OUTPUT_TARGET = "cron_output";

/**
 * `YYYY-MM-DD_HH-MM-SS.md` by the clock on the wall of `zone`; a run that is not the schedule's says so behind it, and one
 * in the hour that comes twice when clocks go back says which it is. No two runs of a job have one name.
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
  // Runs of the schedule are a minute apart; people, and what follows a failure, may be quicker.
  const why = cause === "schedule" ? "" : `_${cause}-${String(atMs % 1000).padStart(3, "0")}`;
  const isSecond = SHIFTS_MS.some((ms) => wallTime(atMs - ms, zone) === time);
  return `${time.replace(" ", "_").replaceAll(":", "-")}${isSecond ? "_second" : ""}${why}.md`;
}

/** By how much clocks go back anywhere. */
const SHIFTS_MS = [7_200_000, 3_600_000, 1_800_000] as const;

/** Whether `name` is a file that outputs may be kept in: it stays in its folder, whatever it says. */
export function isOutputFileName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md$/.test(name);
}

/** Whether `id` may name a folder of outputs. */
export function isJobFolderName(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id);
}

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
