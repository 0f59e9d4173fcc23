import { followRun } from "./follow.ts";
import type { AgentDeps } from "../deps.ts";
import type { Turns } from "./scheduler.ts";

/**
 * Stops what runs and what waits in a session, in whatever process. Resolves when all of it has ended; false when it has
 * not after `timeoutMs`.
 */
export async function endRuns(
  { deps, turns }: { readonly deps: Pick<AgentDeps, "store" | "clock">; readonly turns: Turns },
  sessionId: string,
  { reason, timeoutMs }: { readonly reason: string; readonly timeoutMs: number },
): Promise<boolean> {
  const { store, clock } = deps;
  const open = await store.read
    .selectFrom("runs")
    .select(["id", "last_seq"])
    .where("session_id", "=", sessionId)
    .where("ended_at", "is", null)
    // What waits goes first, so that none of it begins when the turn ends.
    .orderBy("created_at", "desc")
    .execute();
  const late = new AbortController();
  const cancel = clock.after(timeoutMs, () => late.abort());
  try {
    for (const { id } of open) await turns.stop(id, reason);
    for (const { id, last_seq: after } of open) {
      await ended(followRun(store, id, { after, signal: late.signal }));
    }
  } finally {
    cancel();
  }
  return !late.signal.aborted;
}

async function ended(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of events);
}
