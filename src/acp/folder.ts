/** Touches the machine: where a session of a client works. */
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { invalidParams } from "./error.ts";

/** RequestError -32602 unless `cwd` is the absolute path of a folder that is there. */
export async function checkFolder(cwd: string): Promise<string> {
  if (!isAbsolute(cwd)) throw invalidParams("cwd", "cwd must be an absolute path.");
  if (cwd.includes("\0")) throw invalidParams("cwd", "cwd must not contain a NUL character.");
  const found = await stat(cwd).catch(() => undefined);
  if (!found?.isDirectory()) throw invalidParams("cwd", "cwd must be a folder that exists.");
  return cwd;
}
