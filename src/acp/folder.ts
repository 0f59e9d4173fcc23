/** Touches the machine: where a session of a client works. */
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { RequestError } from "@agentclientprotocol/sdk/unstable";

/** RequestError -32602 unless `cwd` is the absolute path of a folder that is there. */
export async function checkFolder(cwd: string): Promise<string> {
  if (!isAbsolute(cwd)) throw RequestError.invalidParams({ cwd }, "cwd must be an absolute path.");
  const found = await stat(cwd).catch(() => undefined);
  if (!found?.isDirectory()) throw RequestError.invalidParams({ cwd }, "cwd must be a folder that exists.");
  return cwd;
}
