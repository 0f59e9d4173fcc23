/** The scripts and folders of this machine, for checking a job's definition. Touches the machine. */
import { open, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { findScriptFile } from "../../exec/script-file.ts";
import type { JobContext } from "./input.ts";

const MAX_SCRIPT_BYTES = 262_144;

/** Returns the context for `defineJob` and `changeJob`. `scriptsFolder` is absolute. */
export function createJobContext({
  scriptsFolder,
  ...rest
}: Omit<JobContext, "readScript" | "isFolder"> & { readonly scriptsFolder: string }): JobContext {
  return {
    ...rest,
    readScript: (script) => readScript(script, scriptsFolder),
    isFolder: async (path) => isAbsolute(path) && (await isFolder(path)),
  };
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function readScript(script: string, folder: string): Promise<string | undefined> {
  const path = await findScriptFile(script, folder);
  if (path === undefined) return undefined;
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read({ buffer: new Uint8Array(MAX_SCRIPT_BYTES) });
    return new TextDecoder().decode(buffer.subarray(0, bytesRead));
  } catch {
    return undefined;
  }
}
