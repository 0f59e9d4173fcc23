/** Reads facts about this process and its disks from the system. Touches the machine. */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";

export const processId: number = process.pid;

/**
 * Returns the free bytes on the volume of `path`, which need not exist yet. Undefined where the runtime or the system
 * does not report it.
 */
export async function freeBytes(path: string): Promise<number | undefined> {
  if (typeof statfs !== "function") return undefined;
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  } catch (error) {
    const isMissing = (error as { code?: string }).code === "ENOENT";
    return isMissing && dirname(path) !== path ? freeBytes(dirname(path)) : undefined;
  }
}
