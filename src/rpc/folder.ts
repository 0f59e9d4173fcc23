/** What the folder of a session is. Touches the machine, and only looks at it. */
import { readFile, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { isInside } from "../agent/inside.ts";

/** The git branch that a folder is on; undefined where there is none. */
export async function branchOf(cwd: string): Promise<string | undefined> {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const head = await readFile(join(folder, ".git", "HEAD"), "utf8").catch(() => undefined);
    if (head !== undefined) return /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
    if (dirname(folder) === folder) return undefined;
  }
}

/** A folder that is not there is ignored, as a host may run on another machine. */
export async function existingFolder(path: string | undefined): Promise<string | undefined> {
  if (path === undefined || !isAbsolute(path) || path.includes("\0")) return undefined;
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true ? path : undefined;
}

/** Whether one folder really lies in another, links followed. */
export async function liesIn(path: string, root: string): Promise<boolean> {
  const places = await Promise.all([realpath(path), realpath(root)]).catch(() => undefined);
  return places !== undefined && isInside(...places);
}
