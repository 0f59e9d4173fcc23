/** Touches the machine: where a session of a client works. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { invalidParams } from "../wire/error.ts";

/** RequestError -32602 naming `param` unless `folder` is the absolute path of a folder that is there. */
export async function checkFolder(folder: string, param = "cwd"): Promise<string> {
  checkPath(folder, param);
  const found = await stat(folder).catch(() => undefined);
  if (!found?.isDirectory()) throw invalidParams(param, `${param} must be a folder that exists.`);
  return folder;
}

/** RequestError -32602 naming `param` unless `path` is absolute. There need be nothing. */
export function checkPath(path: string, param: string): void {
  if (!isAbsolute(path)) throw invalidParams(param, `${param} must be an absolute path.`);
  if (path.includes("\0")) throw invalidParams(param, `${param} must not contain a NUL character.`);
}

/** The path without links; as it is where there is nothing. */
export async function withoutLinks(folder: string): Promise<string> {
  return realpath(folder).catch(() => folder);
}

/** A folder of a session, as the client named it and without links. */
export interface SessionRoot {
  readonly given: string;
  readonly real: string;
}

const MAX_ROOTS = 64;

/** RequestError -32602 unless each is the absolute path of a folder that is there. */
export async function checkRoots(folders: readonly string[]): Promise<readonly SessionRoot[]> {
  if (folders.length > MAX_ROOTS) {
    throw invalidParams("additionalDirectories", `A session takes at most ${MAX_ROOTS} more folders.`);
  }
  return Promise.all(
    folders.map(async (folder) => toRoot(await checkFolder(folder, "additionalDirectories"))),
  );
}

/** Of a folder that is there. */
export async function toRoot(folder: string): Promise<SessionRoot> {
  // Without a slash at its end, which some clients leave there.
  return { given: resolve(folder), real: await realpath(folder) };
}
