/** The output files of jobs in the home. Touches the machine. */
import { join } from "node:path";
import { lstat, readdir, readFile, rm } from "node:fs/promises";
import { writePrivateFile } from "../../config/home.ts";
import { fileProblem, folderProblem, writeFailure } from "../../deliver/targets/local.ts";
import type { SendOutcome, Target } from "../../deliver/target.ts";
import {
  readKeptOutput,
  type KeptOutput,
  isJobFolderName,
  isOutputFileName,
  OUTPUT_TARGET,
} from "./output.ts";

export interface OutputTargetOptions {
  /** `<home>/cron/output`, absolute. */
  readonly folder: string;
  /** How many of the newest files of a job are kept. */
  readonly keep: number;
  /** Whether the job still exists: a file written after its removal would stay forever. */
  readonly hasJob: (id: string) => Promise<boolean>;
  /** For tests. */
  readonly write?: typeof writePrivateFile;
}

/**
 * Returns the target that writes `<folder>/<job>/<file>`, readable for its user only. It writes atomically, writes the same
 * output to the same file, and does not follow links.
 */
export function createOutputTarget(options: OutputTargetOptions): Target {
  return {
    name: OUTPUT_TARGET,
    isOrdered: false,
    supportsIdempotency: true,
    async send({ payload }) {
      const output = readKeptOutput(payload);
      if (!output) return { status: "permanent", error: "The message is not an output of a job." };
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
    // The job may have been removed before the file existed.
    if (!(await hasJob(jobId))) await removeOutputs(root, jobId);
    else await pruneOutputs(folder, { keep: count, besides: file });
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: writeFailure(error, path) };
  }
}

/** Returns the names of a job's output files, newest first. */
export async function listOutputs(root: string, jobId: string): Promise<readonly string[]> {
  if (!isJobFolderName(jobId)) return [];
  return (await namesIn(join(root, jobId))).filter(isOutputFileName).sort().reverse();
}

/** Longest output that is read. */
const MAX_BYTES = 8_388_608;

/** Returns a whole output file; undefined when it does not exist, is too large, or is a link. */
export async function readOutput(
  root: string,
  { jobId, file }: { readonly jobId: string; readonly file: string },
): Promise<string | undefined> {
  if (!isJobFolderName(jobId) || !isOutputFileName(file)) return undefined;
  const folder = join(root, jobId);
  const path = join(folder, file);
  try {
    if (!(await lstat(folder)).isDirectory()) return undefined;
    const found = await lstat(path);
    return found.isFile() && found.size <= MAX_BYTES ? await readFile(path, "utf8") : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Removes all output files of a job. When its folder is a link, only the link is removed. */
export async function removeOutputs(root: string, jobId: string): Promise<void> {
  if (isJobFolderName(jobId)) await rm(join(root, jobId), { recursive: true, force: true });
}

/** A temporary file that an interrupted write left behind. */
const REST = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md\.\d+$/;

/** Removes all but the newest `keep` output files of a job and `besides`. Other files stay. */
export async function pruneOutputs(
  folder: string,
  { keep, besides }: { readonly keep: number; readonly besides: string },
): Promise<void> {
  const names = await namesIn(folder);
  const outputs = names.filter(isOutputFileName).sort().reverse();
  const old = outputs.filter((name) => name !== besides).slice(Math.max(0, keep - 1));
  const oldest = outputs.at(keep - 1);
  const rests = oldest === undefined ? [] : names.filter((name) => REST.test(name) && name < oldest);
  for (const name of [...old, ...rests]) await rm(join(folder, name), { force: true });
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  const { code } = Object(error) as { readonly code?: unknown };
  return code === "ENOENT" || code === "ENOTDIR";
}
