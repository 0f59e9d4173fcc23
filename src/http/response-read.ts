/** Responses as the journal tells them. */
import type { ResponseStreamEvent, RunEvent } from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
import { toRunEvent } from "../agent/event.ts";
import { ServiceError } from "../base/errors.ts";
import type { Store } from "../store/store.ts";
import type { ResponseRow } from "../store/tables.ts";
import { ResponseFold } from "./response-fold.ts";
import { storedRequest } from "./response-store.ts";
import { shuttingDown } from "./run-failure.ts";
import { runEvents, type EventGroups } from "./submission.ts";

const PAGE = 512;

/** A stored response as it is now. ServiceError `run_events_expired` when its first events are no longer kept. */
export async function readResponse(store: Store, row: ResponseRow): Promise<ResponseFold> {
  const fold = new ResponseFold(row.run_id, storedRequest(row));
  await foldEvents(store, fold, row.run_id);
  return fold;
}

/** Takes all committed events of a run, from its first. ServiceError `run_events_expired`. */
export async function foldEvents(store: Store, fold: ResponseFold, runId: string): Promise<void> {
  let after = 0;
  for (;;) {
    const page = await store.journal.read({ runId }, { after, limit: PAGE });
    for (const entry of page) fold.take(firstToLast(toRunEvent(entry), fold));
    if (page.length < PAGE) break;
    after = page.at(-1)?.runSeq ?? after;
  }
  if (fold.count === 0) throw expired(fold);
}

/** The events of a response with a number above `after`, to its last. */
export async function* responseEvents(
  fold: ResponseFold,
  groups: EventGroups,
  after = -1,
): AsyncGenerator<SseMessage<ResponseStreamEvent>> {
  for await (const event of runEvents(groups)) {
    for (const made of fold.take(firstToLast(event, fold))) {
      if (made.sequence_number > after) yield { data: made, event: made.type };
    }
  }
  // The store is closing: whoever reads has to come again, and must not take this for the end.
  if (!fold.isOver) throw shuttingDown();
}

/** A response can only be told from its first event on. */
function firstToLast(event: RunEvent, fold: ResponseFold): RunEvent {
  if (fold.count === 0 && event.seq !== 1) throw expired(fold);
  return event;
}

function expired({ id }: ResponseFold): ServiceError {
  return new ServiceError(
    "run_events_expired",
    `The events of ${id} are no longer all kept, so it cannot be told again.`,
  );
}
