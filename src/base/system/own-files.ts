/** The service's own files, recognised under whatever name they are reached. Touches the machine. */
import { readdirSync, realpathSync, statSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** A file was to be read that is one of the service's own under another name. */
export class OwnFileError extends Error {
  override readonly name = "OwnFileError";
}

/** Entries of a home that are looked at; it holds a dozen. */
const MAX_ENTRIES = 1_000;
/** Its keys are read under no name at all. */
const KEY_FILE = ".env";

/** With how many services hold each. */
const homes = new Map<string, number>();

/**
 * From now on hard links to the files at the top of `home` are not read: rules about paths do not see them. Returns what
 * ends that.
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
 * Opens a file for reading unless it is one of the service's own under another name: what was opened is compared, so
 * that nothing can be put in its place in between. Rejects with {@link OwnFileError}.
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

/** The bytes of a file that {@link openForeign} opens; the caller has looked at its size. */
export async function readForeign(path: string): Promise<Buffer> {
  await using file = await openForeign(path);
  return await file.readFile();
}

/** Throws {@link OwnFileError} when `found`, reached by `path`, is one of the service's own files under another name. */
export function refuseOwn(path: string, found: Pick<Stats, "dev" | "ino" | "nlink">): void {
  // A file with one name is what its path says.
  if (found.nlink < 2) return;
  for (const home of homes.keys()) {
    const own = twinIn(home, path, found);
    if (own === undefined) continue;
    throw new OwnFileError(
      `${path} is another name (a hard link) of ${join(home, own)}, which belongs to the agent's own home and is not read.`,
    );
  }
}

/** The name of the same file in `home`. A file there that is reached by its own name is for the policy to judge. */
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
