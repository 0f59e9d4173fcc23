/** Recognises the service's own files under any name. Touches the machine. */
import { readdirSync, realpathSync, statSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** A file is one of the service's own under another name. */
export class OwnFileError extends Error {
  override readonly name = "OwnFileError";
}

/** Limit of entries read from a home; it holds a dozen. */
const MAX_ENTRIES = 1_000;
/** The keys in it are not readable under any name. */
const KEY_FILE = ".env";

/** Homes with the number of services that use each. */
const homes = new Map<string, number>();

/**
 * Forbids reading hard links to the files at the top of `home`: rules about paths do not see them. Call the returned
 * function to stop.
 */
export function protectHome(home: string): () => void {
  homes.set(home, (homes.get(home) ?? 0) + 1);
  return () => {
    const holders = (homes.get(home) ?? 1) - 1;
    if (holders > 0) homes.set(home, holders);
    else homes.delete(home);
  };
}

/**
 * Opens a file for reading unless it is one of the service's own under another name. It checks the opened file, so the
 * file cannot be replaced in between. Rejects with {@link OwnFileError}.
 */
export async function openForeign(path: string): Promise<FileHandle> {
  const handle = await open(path);
  try {
    refuseOwn(path, await handle.stat());
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Returns the bytes of a file that {@link openForeign} opens; the caller has checked its size. */
export async function readForeign(path: string): Promise<Buffer> {
  await using file = await openForeign(path);
  return await file.readFile();
}

/** Throws {@link OwnFileError} when `found`, reached by `path`, is one of the service's own files under another name. */
export function refuseOwn(path: string, found: Pick<Stats, "dev" | "ino" | "nlink">): void {
  // A file with a single name has no hard link.
  if (found.nlink < 2) return;
  for (const home of homes.keys()) {
    const own = twinIn(home, path, found);
    if (own === undefined) continue;
    throw new OwnFileError(
      `${path} is another name (a hard link) of ${join(home, own)}, which belongs to the agent's own home and is not read.`,
    );
  }
}

/** Returns the name of the same file in `home`. The policy decides about a file that is opened by its own name. */
function twinIn(home: string, path: string, { dev, ino }: Pick<Stats, "dev" | "ino">): string | undefined {
  const real = realOf(path);
  const isInside = dirname(real) === realOf(home);
  return namesIn(home).find((name) => {
    if (isInside && (name !== KEY_FILE || basename(real) === KEY_FILE)) return false;
    const own = statSync(join(home, name), { throwIfNoEntry: false });
    return own?.dev === dev && own.ino === ino;
  });
}

function namesIn(home: string): readonly string[] {
  try {
    return readdirSync(home).slice(0, MAX_ENTRIES);
  } catch {
    return [];
  }
}

function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
