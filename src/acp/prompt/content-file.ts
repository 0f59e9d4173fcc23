/** Files that a prompt links to. Touches the machine. */
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import {
  objectionTo,
  readAttachment,
  realPathOf,
  textAttachment,
} from "../../agent/attachments/attachment.ts";
import { isInside } from "../../base/text.ts";
import type { Attachment } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import { OwnFileError, refuseOwn } from "../../base/system/own-files.ts";

export interface LinkedFiles {
  /** The absolute folders of the session; the first is its working folder. */
  readonly roots: readonly [string, ...string[]];
  readonly home: string;
  readonly agentHome: string;
  /** Returns the editor's text of the file at an absolute path without links, or undefined to read the disk. */
  readonly unsaved: (path: string) => Promise<string | undefined>;
}

/** The limit of a linked text file. The agent reads larger files itself. */
const MAX_LINKED_TEXT_BYTES = 524_288;

/** Returns the absolute path of a link, or undefined if it is not a file of this machine. */
export function linkedPath(uri: string): string | undefined {
  try {
    const path = /^file:/i.test(uri) ? fileURLToPath(uri) : uri;
    return isAbsolute(path) && !path.includes("\0") ? path : undefined;
  } catch {
    return undefined; // a remote host, or escapes that no path can have
  }
}

/**
 * Returns the text or image that a link names. Returns undefined for files that must not be shown unasked: those outside
 * of the roots, even through symbolic links, and secret, large or binary ones.
 */
export async function readLinked(path: string, files: LinkedFiles): Promise<Attachment | undefined> {
  const { roots, unsaved } = files;
  const real = realPathOf(path, roots[0]);
  if (real === undefined || !roots.some((root) => isInside(real, realPathOf(root, root) ?? root)))
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
  return objectionTo(path, { workspace: roots[0], home, agentHome }) !== undefined;
}

/** Returns whether the path is a file of the agent's home under another name. */
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

function isShown(text: string): boolean {
  if (text.length > MAX_LINKED_TEXT_BYTES || text.includes("\0")) return false;
  return new TextEncoder().encode(text).length <= MAX_LINKED_TEXT_BYTES;
}

/** Returns whether the error is about the file: missing permissions, a deleted file, an unsupported type. */
function isOfFile(error: unknown): boolean {
  return error instanceof ServiceError || (error instanceof Error && "code" in error);
}
