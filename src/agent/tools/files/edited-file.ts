import { randomUUID } from "node:crypto";
import type { Stats } from "node:fs";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { holdFolderOf } from "../../../base/system/contained.ts";
import { refuseOwn } from "../../../base/system/own-files.ts";
import { type FileAccess, type ToolContext, ToolError } from "../../tool/tool.ts";
import { statOf, toToolError } from "./paths.ts";

/** Larger files are not transferred as a whole. */
const MAX_BYTES = 5_242_880;
const BINARY_PROBE_BYTES = 8_192;

/**
 * Returns the text of a regular file in the editor; undefined when the disk has the current text: no editor has the
 * session's files, or the file is large or binary. `path` is absolute with its links resolved.
 */
export async function editedText(
  path: string,
  sizeBytes: number,
  { files, signal }: Pick<ToolContext, "files" | "signal">,
): Promise<string | undefined> {
  if (!files || sizeBytes > MAX_BYTES || (await isBinary(path))) return undefined;
  const text = await files.read(path, signal);
  signal.throwIfAborted();
  return text;
}

/** Also true for an unreadable file: reading it from disk reports the reason. */
async function isBinary(path: string): Promise<boolean> {
  const file = await open(path).catch(() => undefined);
  try {
    const start = Buffer.alloc(BINARY_PROBE_BYTES);
    const { bytesRead } = (await file?.read(start, 0, start.length, 0)) ?? {};
    return bytesRead === undefined || start.subarray(0, bytesRead).includes(0);
  } catch {
    return true;
  } finally {
    await file?.close();
  }
}

/** New content beside its target; `commit` replaces the target in one step, `discard` removes the content. */
interface StagedFile {
  readonly path: string;
  readonly existed: boolean;
  commit(): Promise<void>;
  discard(): Promise<void>;
}

const NEW_FILE_MODE = 0o644;

/** Stages text that an editor writes, when an editor has the file; else as {@link stageFile}. */
export async function stageText(path: string, text: string, editing: Editing): Promise<StagedFile> {
  const { files, signal } = editing;
  if (files?.writes(path) !== true) return stageFile(path, text, editing);
  const found = await replaceable(path);
  await makeParents(path);
  return {
    path,
    existed: found !== undefined,
    commit: () => files.write(path, text, signal),
    discard: async () => {},
  };
}

export interface Editing {
  readonly files?: FileAccess;
  /** Real paths that may be written. Absent: any. */
  readonly approved?: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * Writes `content` to a temporary file beside `path`, with the permissions of `path`, and creates missing parents.
 * `path` is absolute with its links resolved. Throws ToolError for anything but a regular file and for errors of the
 * file system.
 */
async function stageFile(
  path: string,
  content: string | Uint8Array,
  { approved = ["/"] }: Pick<Editing, "approved">,
): Promise<StagedFile> {
  const found = await replaceable(path);
  await makeParents(path);
  const folder = await holdFolderOf(path, approved).catch((error: unknown) => {
    throw toToolError(error, path);
  });
  const temporary = join(folder.path, `.agentd-${randomUUID()}.tmp`);
  const discard = async () => {
    await rm(temporary, { force: true });
    await folder[Symbol.asyncDispose]();
  };
  try {
    await write(temporary, content);
    // The umask applies only to new files: an existing file keeps its exact permissions.
    if (found) await chmod(temporary, found.mode & 0o7777);
  } catch (error) {
    await discard();
    throw toToolError(error, path);
  }
  const commit = async () => {
    try {
      await rename(temporary, join(folder.path, basename(path)));
    } catch (error) {
      await discard();
      throw toToolError(error, path);
    }
    await folder[Symbol.asyncDispose]();
  };
  return { path, existed: found !== undefined, commit, discard };
}

async function replaceable(path: string): Promise<Stats | undefined> {
  const found = await statOf(path);
  if (found?.isDirectory()) throw new ToolError(`${path} is a directory. Name a file in it.`);
  if (found && !found.isFile()) throw new ToolError(`${path} is not a regular file and cannot be replaced.`);
  try {
    // An editor writes into the existing file, including all its hard links.
    if (found) refuseOwn(path, found);
  } catch (error) {
    throw toToolError(error, path);
  }
  return found;
}

async function makeParents(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true }).catch((error: unknown) => {
    throw toToolError(error, path);
  });
}

async function write(path: string, content: string | Uint8Array): Promise<void> {
  const file = await open(path, "wx", NEW_FILE_MODE);
  try {
    await file.writeFile(content);
    // Without this a power failure after the rename can leave an empty file.
    await file.sync();
  } finally {
    await file.close();
  }
}
