/** Files that a prompt links to. Touches the machine. */
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import { readAttachment } from "../../agent/attachments/attachment.ts";
import { textAttachment } from "../../agent/attachments/text-attachment.ts";
import { isInside } from "../../base/paths.ts";
import type { Attachment } from "../../agent/message.ts";
import { checkRead, type PolicyPaths } from "../../agent/question/policy/paths.ts";
import { ToolError } from "../../agent/tool/tool.ts";
import { realPath } from "../../agent/tools/files/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import { OwnFileError, refuseOwn } from "../../base/system/own-files.ts";

export interface LinkedFiles {
  /** Folders that the client works in, absolute; the first is that of the session. */
  readonly roots: readonly [string, ...string[]];
  readonly home: string;
  readonly agentHome: string;
  /** What the client has in its editor of the file at an absolute path without links; undefined: the disk holds it. */
  readonly unsaved: (path: string) => Promise<string | undefined>;
}

/** Of text; larger files are named, and the agent reads of them what it needs. */
const MAX_LINKED_TEXT_BYTES = 524_288;

/** The absolute path that a link names; undefined when it leads elsewhere than to a file of this machine. */
export function linkedPath(uri: string): string | undefined {
  try {
    const path = /^file:/i.test(uri) ? fileURLToPath(uri) : uri;
    return isAbsolute(path) && !path.includes("\0") ? path : undefined;
  } catch {
    return undefined; // another machine's, or escapes that no path has
  }
}

/**
 * The text or image that a link leads to. Undefined for what is not shown unasked: files outside of the roots, also by
 * way of symbolic links, files that may hold secrets, large and binary ones, and what is no file.
 */
export async function readLinked(path: string, files: LinkedFiles): Promise<Attachment | undefined> {
  const { roots, unsaved } = files;
  const real = realOf(path, roots[0]);
  if (real === undefined || !roots.some((root) => isInside(real, realOf(root, root) ?? root)))
    return undefined;
  if (isSecret(path, files) || isSecret(real, files)) return undefined;
  if (await isOwn(real)) return undefined;
  const edited = await unsaved(real);
  if (edited !== undefined) return isShown(edited) ? textAttachment(path, edited) : undefined;
  const limits = { maxFileBytes: MAX_LINKED_TEXT_BYTES };
  try {
    const { attachment } = await readAttachment(real, { cwd: roots[0], roots, ...limits });
    const isTaken = attachment.type === "image" || attachment.mediaType === "text/plain";
    return isTaken ? { ...attachment, name: path } : undefined;
  } catch (error) {
    if (isOfFile(error)) return undefined;
    throw error;
  }
}

function isSecret(path: string, { roots, home, agentHome }: LinkedFiles): boolean {
  const places: PolicyPaths = { workspace: roots[0], home, agentHome };
  return checkRead(path, places) !== undefined;
}

/** Whether it is a file of the agent's own home under another name. */
async function isOwn(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  try {
    if (found) refuseOwn(path, found);
    return false;
  } catch (error) {
    if (error instanceof OwnFileError) return true;
    throw error;
  }
}

function realOf(path: string, cwd: string): string | undefined {
  try {
    return realPath(path, cwd);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

function isShown(text: string): boolean {
  if (text.length > MAX_LINKED_TEXT_BYTES || text.includes("\0")) return false;
  return new TextEncoder().encode(text).length <= MAX_LINKED_TEXT_BYTES;
}

/** Missing rights, files that vanish, what is of no kind that is taken. */
function isOfFile(error: unknown): boolean {
  return error instanceof ServiceError || (error instanceof Error && "code" in error);
}
