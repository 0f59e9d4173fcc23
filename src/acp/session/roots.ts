/** Touches the machine: folders where a session works beside its own. */
import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { invalidParams } from "../wire/error.ts";
import { checkFolder } from "./folder.ts";

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
