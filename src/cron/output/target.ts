/** Keeps outputs as files in the home. Touches the machine. */
import { join } from "node:path";
import { writePrivateFile } from "../../config/home.ts";
import { fileProblem, folderProblem, writeFailure } from "../../deliver/targets/local.ts";
import type { SendOutcome, Target } from "../../deliver/target.ts";
import { readKeptOutput, type KeptOutput } from "./output.ts";
import { isJobFolderName, isOutputFileName, OUTPUT_TARGET } from "./name.ts";
import { pruneOutputs, removeOutputs } from "./outputs.ts";

export interface OutputTargetOptions {
  /** `<home>/cron/output`, absolute. */
  readonly folder: string;
  /** How many of the newest files of a job stay. */
  readonly keep: number;
  /** Whether there is such a job (still): what would be written after its removal, nobody takes away. */
  readonly hasJob: (id: string) => Promise<boolean>;
  /** For tests. */
  readonly write?: typeof writePrivateFile;
}

/**
 * Writes `<folder>/<job>/<file>`, readable for its user alone. The same output is always the same file, nobody sees half of
 * one, and links are not followed.
 */
export function createOutputTarget(options: OutputTargetOptions): Target {
  return {
    name: OUTPUT_TARGET,
    isOrdered: false,
    supportsIdempotency: true,
    async send({ payload }) {
      const output = readKeptOutput(payload);
      if (!output) return { status: "permanent", error: "The message is no output of a job." };
      if (!isJobFolderName(output.jobId))
        return { status: "permanent", error: "The id of the job cannot name a folder." };
      if (!isOutputFileName(output.file))
        return { status: "permanent", error: "The name of the output cannot name a file." };
      return keep(output, options);
    },
  };
}

async function keep(
  { jobId, file, text }: KeptOutput,
  { folder: root, keep: count, hasJob, write = writePrivateFile }: OutputTargetOptions,
): Promise<SendOutcome> {
  const folder = join(root, jobId);
  const path = join(folder, file);
  try {
    if (!(await hasJob(jobId))) return { status: "delivered" };
    const problem = (await folderProblem(root)) ?? (await folderProblem(folder)) ?? (await fileProblem(path));
    if (problem !== undefined) return { status: "permanent", error: problem };
    await write(path, text);
    // Removed meanwhile: whoever removed it may have looked before the file was there.
    if (!(await hasJob(jobId))) await removeOutputs(root, jobId);
    else await pruneOutputs(folder, { keep: count, besides: file });
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: writeFailure(error, path) };
  }
}
