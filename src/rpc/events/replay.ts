import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { Cursor } from "../../../generated/gateway/types/types.gen.ts";
import type { Store } from "../../store/store.ts";
import { EventProjector, type EventProjectorOptions } from "./projector.ts";

/** Where a listener goes on. */
export interface ReplayFrom {
  /** The last entry that it knows; the session's last one when it has to begin anew. */
  readonly after: number;
  readonly latestSeq: number;
  readonly truncated: boolean;
}

/** Whether what follows a cursor is still kept. Without a cursor: from the session's last event on. */
export async function replayFrom(store: Store, sessionId: string, cursor?: Cursor): Promise<ReplayFrom> {
  const row = await store.read
    .selectFrom("sessions")
    .select("last_seq")
    .where("id", "=", sessionId)
    .executeTakeFirst();
  const latestSeq = row?.last_seq ?? 0;
  if (!cursor) return { after: latestSeq, latestSeq, truncated: false };
  const isKept =
    cursor.epoch === store.epoch &&
    cursor.last_seen <= latestSeq &&
    (await isWhole(store, { sessionId, after: cursor.last_seen, upTo: latestSeq }));
  if (!isKept) return { after: latestSeq, latestSeq, truncated: true };
  return { after: cursor.last_seen, latestSeq, truncated: false };
}

/** Old events go run by run, so there may be a hole anywhere. */
async function isWhole(
  store: Store,
  part: { readonly sessionId: string; readonly after: number; readonly upTo: number },
): Promise<boolean> {
  if (part.after === part.upTo) return true;
  const found = await store.read
    .selectFrom("events")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("session_id", "=", part.sessionId)
    .where("seq", ">", part.after)
    .where("seq", "<=", part.upTo)
    .executeTakeFirst();
  return Number(found?.count ?? 0) === part.upTo - part.after;
}

/** The events above `after`, as many as an answer may hold. Bytes are bytes of UTF-8. */
export async function readEvents(
  options: EventProjectorOptions,
  limits: { readonly events: number; readonly bytes: number },
): Promise<readonly GatewayEvent[]> {
  const { store, sessionId, after } = options;
  const { projector, opening } = await EventProjector.open(options);
  const { events: limit, bytes: maxBytes } = limits;
  const entries = await store.journal.read({ sessionId }, { after, limit, maxBytes });
  const events = [...opening];
  let bytes = 0;
  let lastSeq = after;
  for (const entry of entries) {
    const told = await projector.tell(entry);
    bytes += Buffer.byteLength(JSON.stringify(told));
    if (lastSeq > after && (bytes > limits.bytes || events.length + told.length > limits.events)) break;
    events.push(...told);
    lastSeq = entry.seq;
  }
  return events;
}
