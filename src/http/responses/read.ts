/** Responses as the journal tells them. */
import type { ResponseStreamEvent } from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { toRunEvent } from "../../agent/run/event.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import { ResponseReducer } from "./reducer.ts";
import { remainsOf } from "./retained.ts";
import { storedRequest } from "./store.ts";
import { shuttingDown } from "../runs/failure.ts";
import { runEvents, type EventGroups } from "../prompt/submission.ts";

/** Of a run's events, read at once. */
const PAGE = { limit: 512, maxBytes: 262_144 };

/**
 * A stored response as it is now: in all its items, or when its first events are no longer kept, in what its run still
 * tells. ServiceError `run_events_expired` when that is not enough to say how it ended.
 */
export async function readResponse(store: Store, row: ResponseRow): Promise<ResponseReducer> {
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  if (await reduceEvents(store, reducer, row.run_id)) return reducer;
  const remains = await remainsOf(store, row.run_id);
  if (!remains) throw expired(reducer);
  const shortened = new ResponseReducer(row.run_id, storedRequest(row));
  for (const event of remains) shortened.take(event);
  return shortened;
}

/** A stored response with all its events. ServiceError `run_events_expired`. */
export async function readWhole(store: Store, row: ResponseRow): Promise<ResponseReducer> {
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  if (await reduceEvents(store, reducer, row.run_id)) return reducer;
  throw expired(reducer);
}

/** Takes all committed events of a run. False when they are not all there from the first. */
export async function reduceEvents(store: Store, reducer: ResponseReducer, runId: string): Promise<boolean> {
  for (;;) {
    const page = await store.journal.read({ runId }, { after: reducer.lastSeq, ...PAGE });
    for (const entry of page) {
      if (entry.runSeq !== reducer.lastSeq + 1) return false;
      reducer.take(toRunEvent(entry));
    }
    if (page.length === 0 || reducer.isOver) return reducer.count > 0;
    // A long run must not hold up all others.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The events of a response with a number above `after`, to its last. */
export async function* responseEvents(
  reducer: ResponseReducer,
  groups: EventGroups,
  after = -1,
): AsyncGenerator<SseMessage<ResponseStreamEvent>> {
  for await (const event of runEvents(groups)) {
    // A reader so slow that events went before it came to them cannot be told the rest.
    if (event.seq !== reducer.lastSeq + 1) throw expired(reducer);
    for (const made of reducer.take(event)) {
      if (made.sequence_number > after) yield { data: made, event: made.type };
    }
  }
  // The store is closing: whoever reads has to come again, and must not take this for the end.
  if (!reducer.isOver) throw shuttingDown();
}

function expired({ id }: ResponseReducer): ServiceError {
  return new ServiceError(
    "run_events_expired",
    `The events of ${id} are no longer all kept, so it cannot be told again.`,
  );
}
