import type { JournalEvent } from "../../store/journal/journal.ts";
import { isFinalEvent } from "../../agent/run/event.ts";
import type { Store } from "../../store/store.ts";
import type { TurnReporter } from "./turn-reporter.ts";

/** How far a run was told. `last` is its final event, undefined when the telling was broken off before. */
export interface Forwarded {
  readonly last: JournalEvent | undefined;
  /** Number of the newest event that was looked at, in the run. */
  readonly after: number;
}

/** Tells a run from the event behind `after` on, until it has ended or `signal` aborts. The teller is left open. */
export async function forwardRun(
  store: Store,
  reporter: TurnReporter,
  options: { readonly runId: string; readonly after?: number; readonly signal: AbortSignal },
): Promise<Forwarded> {
  const { runId, signal } = options;
  let after = options.after ?? 0;
  for await (const events of store.journal.follow({ runId }, { after, signal })) {
    after = events.at(-1)?.runSeq ?? after;
    await reporter.tell(events);
    const last = events.find(({ type }) => isFinalEvent(type));
    if (last || signal.aborted) return { last, after };
  }
  return { last: undefined, after };
}
