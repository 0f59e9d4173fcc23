import type { Execution } from "./execution.ts";
import type { AgentDeps } from "../deps.ts";
import { suspended } from "../recovery/resume.ts";
import { RunStop } from "./stop.ts";

/** How often a drain looks for runs that have come to wait for leave. */
const PARK_MS = 500;

/**
 * Lets go of the runs at work when the process is to end: waits `graceMs` for them, parks those that wait for leave and
 * need no client, leaves those that start again to the next start, and cuts the rest, which end as interrupted. `settled`
 * resolves when none is at work. `onCut` is called when they are waited for no longer.
 */
export async function drainRuns(
  running: Iterable<Execution>,
  deps: AgentDeps,
  {
    graceMs,
    settled,
    onCut,
  }: { readonly graceMs: number; readonly settled: Promise<void>; readonly onCut: () => void },
): Promise<void> {
  const over = new AbortController();
  const patience = deps.clock.sleep(graceMs, { signal: over.signal }).catch(() => {});
  void Promise.race([settled, patience]).then(() => over.abort());
  do await parkWaiting(running, deps);
  while (await isStillPatient(deps, over.signal));
  onCut();
  await parkWaiting(running, deps);
  for (const execution of running) {
    if (execution.canStartAgain) execution.park();
    else await execution.stop(new RunStop("shutdown", "The server was shut down while the run was at work."));
  }
  await settled;
}

function isStillPatient({ clock }: AgentDeps, over: AbortSignal): Promise<boolean> {
  return clock.sleep(PARK_MS, { signal: over }).then(
    () => true,
    () => false,
  );
}

/** A run that cannot be parked, for want of a database too, is cut like any. */
async function parkWaiting(running: Iterable<Execution>, { store, log }: AgentDeps): Promise<void> {
  for (const execution of running) {
    if (!execution.isDetached) continue;
    try {
      const canWait = await store.write(async (tx) => {
        const run = await tx.find("runs", { id: execution.runId });
        return run !== undefined && (await suspended(tx, run)) !== undefined;
      });
      if (canWait) execution.park();
    } catch (error) {
      log.warn("a run that waits for leave could not be left waiting", { run: execution.runId, error });
    }
  }
}
