/** What this process started and must not outlive it. Touches the machine. */
import process from "node:process";

const held = new Set<number>();
let isWatching = false;

/**
 * The process group of `pid` is killed when this process exits before the result was called, however it exits. What
 * ends in good order is ended kindly before, by whoever started it.
 */
export function holdGroup(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.on("exit", killHeldGroups);
  isWatching = true;
  held.add(pid);
  return () => void held.delete(pid);
}

function killHeldGroups(): void {
  for (const pid of held) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // All gone, or not ours any more.
    }
  }
}
