/** Touches the machine: where a session of a client works. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
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
