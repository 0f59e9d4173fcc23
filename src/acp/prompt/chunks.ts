/** Streamed text in as few pieces as there are waiting. Pure. */
import type { JournalEvent } from "../../store/journal/journal.ts";

/** A piece that is this long is not made longer. */
const MAX_MERGED_BYTES = 2_048;

/**
 * Neighbouring pieces of the same text as one. The journal merges what comes close in time; here only what has piled up
 * behind a slow client is put together, so nothing waits.
 */
export function merged(events: readonly JournalEvent[]): readonly JournalEvent[] {
  const all: JournalEvent[] = [];
  for (const event of events) {
    const last = all.at(-1);
    const joined = last && joinedWith(last, event);
    if (joined) all[all.length - 1] = joined;
    else all.push(event);
  }
  return all;
}

function joinedWith(last: JournalEvent, next: JournalEvent): JournalEvent | undefined {
  if (last.type !== next.type || last.runId !== next.runId) return undefined;
  if (next.type !== "message.delta" && next.type !== "reasoning.delta") return undefined;
  if (last.data["message_id"] !== next.data["message_id"]) return undefined;
  const text = `${String(last.data["delta"])}${String(next.data["delta"])}`;
  if (text.length > MAX_MERGED_BYTES || Buffer.byteLength(text) > MAX_MERGED_BYTES) return undefined;
  return { ...next, data: { ...next.data, delta: text } };
}
