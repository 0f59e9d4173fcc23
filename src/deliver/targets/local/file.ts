/** Files that targets write in the home: no links are followed. Touches the machine. */
import { lstat } from "node:fs/promises";

/** What keeps a folder from being written to, a sentence. Links are not followed: what is written here must not appear elsewhere. */
export async function folderProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isDirectory()
    ? undefined
    : `${path} is a link or a file: put a folder there, or remove it.`;
}

/** As {@link folderProblem}, of a file. */
export async function fileProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isFile() ? undefined : `${path} is a link or a folder: remove it.`;
}

async function existing(path: string) {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

const FULL = new Set(["ENOSPC", "EDQUOT"]);
const DENIED = new Set(["EACCES", "EPERM", "EROFS"]);

/** Why a file could not be written, for people. */
export function writeFailure(error: unknown, path: string): string {
  const code = codeOf(error) ?? codeOf((error as { readonly cause?: unknown }).cause) ?? "unknown reason";
  if (FULL.has(code)) return `The disk is full (${code}): ${path} could not be written. Make room.`;
  if (DENIED.has(code))
    return `${path} may not be written (${code}). Give the folder back to the user of the service.`;
  return `${path} could not be written (${code}).`;
}

/** Of the system's errors only: the codes of others say nothing about files. */
function codeOf(error: unknown): string | undefined {
  const { code } = Object(error) as { readonly code?: unknown };
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}
