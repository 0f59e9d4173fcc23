import { open } from "node:fs/promises";
import type { ToolContext } from "../../tool/tool.ts";

/** Larger files are not passed around as a whole. */
const MAX_BYTES = 5_242_880;
const BINARY_PROBE_BYTES = 8_192;

/**
 * The text of a regular file as an editor has it; undefined where the disk is right: nobody edits the session's files,
 * or the file is large or binary. `path` is absolute with its links followed.
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

/** Also true for what cannot be read: the disk says why. */
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
