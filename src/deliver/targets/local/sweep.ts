/** What of delivered files is old enough to go. Touches the machine. */
import { readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";

export interface SweepLimits {
  readonly nowMs: number;
  readonly maxDays: number;
  readonly maxFiles: number;
}

const DAY_MS = 86_400_000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
/** A message's file, or what a write that was cut off left beside it. */
const FILE = /^[A-Za-z0-9_-]{1,128}\.md(\.\d+)?$/;

/** Removes files in the day folders below `root`, oldest first. Whatever else lies there stays. */
export async function sweepDays(root: string, { nowMs, maxDays, maxFiles }: SweepLimits): Promise<void> {
  const entries = await readdir(root, { withFileTypes: true });
  const days = entries.filter((entry) => entry.isDirectory() && DAY.test(entry.name)).map(({ name }) => name);
  const firstDay = new Date(nowMs - maxDays * DAY_MS).toISOString().slice(0, "yyyy-mm-dd".length);
  let room = maxFiles;
  for (const day of days.sort().reverse()) {
    const folder = join(root, day);
    const files = (await readdir(folder)).filter((name) => FILE.test(name));
    const kept = day < firstDay ? 0 : Math.min(room, files.length);
    room -= kept;
    // Ids grow with time: the first ones are the oldest.
    const old = files.sort().slice(0, files.length - kept);
    for (const name of old) await rm(join(folder, name), { force: true });
    if (kept === 0) await removeEmpty(folder);
  }
}

async function removeEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch {
    // Something of somebody else lies there, or something new.
  }
}
