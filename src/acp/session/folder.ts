/** The folders of a session. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { invalidParams } from "../wire/error.ts";

/** Returns `folder`. RequestError -32602 naming `param` unless it is the absolute path of an existing folder. */
export async function checkFolder(folder: string, param = "cwd"): Promise<string> {
  checkPath(folder, param);
  const found = await stat(folder).catch(() => undefined);
  if (!found?.isDirectory()) throw invalidParams(param, `${param} must be an existing folder.`);
  return folder;
}

/** RequestError -32602 naming `param` unless `path` is absolute. It need not exist. */
export function checkPath(path: string, param: string): void {
  if (!isAbsolute(path)) throw invalidParams(param, `${param} must be an absolute path.`);
  if (path.includes("\0")) throw invalidParams(param, `${param} must not contain a NUL character.`);
}

/** Returns the path with links resolved, or the path itself if nothing exists there. */
export async function withoutLinks(folder: string): Promise<string> {
  return realpath(folder).catch(() => folder);
}

/** A folder of a session, as the client named it and without links. */
export interface SessionRoot {
  readonly given: string;
  readonly real: string;
}

const MAX_ROOTS = 64;

/** Returns the additional folders. RequestError -32602 unless each is the absolute path of an existing folder. */
export async function checkRoots(folders: readonly string[]): Promise<readonly SessionRoot[]> {
  if (folders.length > MAX_ROOTS) {
    throw invalidParams(
      "additionalDirectories",
      `A session can have at most ${MAX_ROOTS} additional folders.`,
    );
  }
  return Promise.all(
    folders.map(async (folder) => toRoot(await checkFolder(folder, "additionalDirectories"))),
  );
}

/** Returns both paths of an existing folder. */
export async function toRoot(folder: string): Promise<SessionRoot> {
  // resolve() removes the trailing slash that some clients send.
  return { given: resolve(folder), real: await realpath(folder) };
}
