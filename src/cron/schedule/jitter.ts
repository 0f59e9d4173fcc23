/** How much later than its instant a run begins. Pure. */
import { sha256 } from "../../base/digest.ts";
import type { Job } from "../job/job.ts";

/** The same for the same instant of the same job, whoever asks; in whole milliseconds. */
export function jitterMs({ id, definition }: Pick<Job, "id" | "definition">, slotMs: number): number {
  const maxMs = definition.jitterSeconds * 1000;
  if (maxMs <= 0) return 0;
  const digest = Number.parseInt(sha256(`${id} ${slotMs}`).slice(0, 8), 16);
  return digest % maxMs;
}
