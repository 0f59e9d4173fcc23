import type { JournalEvent } from "../../store/journal/journal.ts";
import type { Store } from "../../store/store.ts";
import { isFinalEvent } from "./event.ts";

/** The events of a run as they come, up to and with its final one. */
export async function* followRun(
  store: Store,
  runId: string,
  options: { readonly after?: number; readonly signal?: AbortSignal } = {},
): AsyncGenerator<JournalEvent> {
  for await (const group of store.journal.follow({ runId }, options)) {
    for (const event of group) {
      yield event;
      if (isFinalEvent(event.type)) return;
    }
  }
}
