/** The messages of a session, a page at a time, so that a long session costs no more memory than a short one. */
import { readTranscript, type NumberedMessage } from "../../agent/session/transcript.ts";
import type { Store } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";

/** Few, since a message may carry files of some megabytes. */
const PAGE = 16;

export type Pages = AsyncIterable<readonly NumberedMessage[]>;

/** All that there are at the time of the call, oldest first. */
export async function* readPages(store: Store, { id, last_message: last }: SessionRow): Pages {
  // Each window of numbers holds at most a page; what was taken back leaves gaps, which the page before then fills.
  for (let from = 1; from <= last; from += PAGE) {
    const { messages } = await readTranscript(store, id, { before: from + PAGE, limit: PAGE });
    const page = messages.filter(({ seq }) => seq >= from && seq <= last);
    if (page.length > 0) yield page;
  }
}

/** The newest `count`, oldest first. Summaries are no messages, so more is read until there are enough. */
export async function* newestMessages(store: Store, { id }: SessionRow, count: number): Pages {
  let found: readonly NumberedMessage[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  for (let more = true; more && found.length < count;) {
    const page = await readTranscript(store, id, { before, limit: count });
    found = [...page.messages, ...found];
    before = page.messages[0]?.seq ?? 0;
    more = page.hasMore && before > 0;
  }
  yield found.slice(-count);
}
