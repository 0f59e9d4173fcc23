/** The kept outputs of jobs, as files in the home. Touches the machine. */
import { lstat, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isJobFolderName, isOutputFileName } from "./name.ts";

/** Names of the outputs of a job, newest first; empty when there are none. */
export async function listOutputs(root: string, jobId: string): Promise<readonly string[]> {
  if (!isJobFolderName(jobId)) return [];
  return (await namesIn(join(root, jobId))).filter(isOutputFileName).sort().reverse();
}

/** Longest output that is read. */
const MAX_BYTES = 8_388_608;

/** The whole document; undefined when there is none, or it is no file of ours, such as a link. */
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

/** Takes away all outputs of a job that is gone. A link in the place of its folder goes, what it leads to stays. */
export async function removeOutputs(root: string, jobId: string): Promise<void> {
  if (isJobFolderName(jobId)) await rm(join(root, jobId), { recursive: true, force: true });
}

/** What a write that was cut off left beside its file. */
const REST = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md\.\d+$/;

/** Leaves the newest `keep` outputs of a job, and `besides`; whatever else lies there stays. */
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
