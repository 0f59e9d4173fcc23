/** Opens files and folders so that a path cannot be swapped between check and use. Touches the machine. */
import { constants } from "node:fs";
import { open, readlink, realpath, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { isInside } from "../text.ts";
import { openForeign } from "./own-files.ts";

/** A path leads to something else than when it was checked. */
export class MovedError extends Error {
  override readonly name = "MovedError";

  constructor(path: string) {
    super(`${path} has changed since it was checked. Try again.`);
  }
}

/**
 * Opens a file for reading, like {@link openForeign}. The opened file must be one of `allowed` or inside one of them:
 * real paths, without links. Rejects with {@link MovedError}.
 */
export async function openInside(path: string, allowed: readonly string[]): Promise<FileHandle> {
  const file = await openForeign(path);
  try {
    const real = await realPathOf(file, path);
    if (allowed.some((root) => isInside(real, root))) return file;
    throw new MovedError(path);
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** An open folder: it stays the same one, whatever happens to its path. */
export interface HeldFolder extends AsyncDisposable {
  /** Prefix of paths in it. */
  readonly path: string;
}

/**
 * Opens the folder of `path`, so that a file written there and renamed to `path` stays in this folder. `path` must be
 * one of `allowed` or inside one of them, by the folder as it is opened. Rejects with {@link MovedError}.
 */
export async function holdFolderOf(path: string, allowed: readonly string[]): Promise<HeldFolder> {
  const folder = dirname(path);
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const real = await realPathOf(handle, folder);
    const target = join(real, basename(path));
    if (!allowed.some((root) => isInside(target, root))) throw new MovedError(path);
    // Linux resolves names below the descriptor, whatever became of the folder's own name (proc(5)).
    const held = process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : real;
    let closed: Promise<void> | undefined;
    return { path: held, [Symbol.asyncDispose]: () => (closed ??= handle.close()) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function realPathOf(handle: FileHandle, path: string): Promise<string> {
  if (process.platform === "linux") return readlink(`/proc/self/fd/${handle.fd}`);
  const [opened, real] = await Promise.all([handle.stat(), realpath(path)]);
  const found = await stat(real);
  if (found.dev === opened.dev && found.ino === opened.ino) return real;
  throw new MovedError(path);
}
