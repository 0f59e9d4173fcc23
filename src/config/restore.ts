/** Replaces the content of a home, so that a crash leaves the old content or the new one. Touches the machine. */
import { existsSync, lstatSync } from "node:fs";
import { mkdir, open, rename, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { readPrivateFile, withFileLock, writePrivateFile } from "./home.ts";

/** Exists only while entries are moved. */
const PLAN = ".restore.json";

/** Returns the path of the archive that the next start of the service restores. No backup takes it along. */
export function stagedRestorePath(home: string): string {
  return join(home, ".restore-next.tar.gz");
}

export interface Replacement {
  /** A folder in the home with the new entries. */
  readonly staged: string;
  /** A new folder in the home for the old entries. */
  readonly replaced: string;
  /** Names of the entries to move out of the home and into it. */
  readonly outgoing: readonly string[];
  readonly incoming: readonly string[];
}

/** Moves the old entries out and the new ones in. A process that dies meanwhile is undone by {@link undoRestore}. */
export async function replaceEntries(home: string, replacement: Replacement): Promise<void> {
  const plan = join(home, PLAN);
  await withFileLock(plan, async () => {
    await undo(home);
    await mkdir(join(home, replacement.replaced), { mode: 0o700 });
    await writePrivateFile(plan, JSON.stringify(replacement));
    await syncFolder(home);
    try {
      await move(replacement.outgoing, home, join(home, replacement.replaced));
      await move(replacement.incoming, join(home, replacement.staged), home);
      await syncFolder(home);
    } catch (error) {
      await undo(home);
      throw error;
    }
    await rm(plan);
    await syncFolder(home);
  });
}

/** Puts the old content back if a replacement was interrupted. Waits for one that is in progress. */
export async function undoRestore(home: string): Promise<void> {
  const plan = join(home, PLAN);
  if (!existsSync(plan)) return;
  await withFileLock(plan, () => undo(home));
}

async function undo(home: string): Promise<void> {
  const text = await readPrivateFile(join(home, PLAN));
  if (text === undefined) return;
  const { staged, replaced, outgoing, incoming } = JSON.parse(text) as Replacement;
  const [stage, old] = [join(home, staged), join(home, replaced)];
  // What is no longer staged is in the home. All of it goes before anything comes back: names may be the same.
  await move(
    incoming.filter((name) => !isThere(join(stage, name)) && isThere(join(home, name))),
    home,
    stage,
  );
  await move(
    outgoing.filter((name) => isThere(join(old, name))),
    old,
    home,
  );
  await rm(stage, { recursive: true, force: true });
  await rmdir(old).catch(() => {});
  await syncFolder(home);
  await rm(join(home, PLAN));
}

async function move(names: readonly string[], from: string, to: string): Promise<void> {
  for (const name of names) await rename(join(from, name), join(to, name));
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  // Some file systems cannot sync a folder.
  await handle.sync().catch(() => {});
  await handle.close();
}

/** Returns whether something has this name, also a link that points nowhere. */
function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
