import type { RunEvent } from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
import { isFinalEvent, toRunEvent } from "../agent/event.ts";
import { findRun, isFinalStatus, type RunView } from "../agent/run.ts";
import { ServiceError } from "../base/errors.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import type { RunSubscribers } from "./run-subscribers.ts";

/** GET /v1/runs/{run_id}/events: replay after the cursor, then live, to the run's final event. */
export async function streamRunEvents(
  { path, headers, query, ctx, signal }: HttpRequest<"streamRunEvents", HttpContext>,
  room: HttpRoom,
  subscribers: RunSubscribers,
): Promise<HttpResponse<"streamRunEvents">> {
  const row = await findRun(room.store, path.run_id, ctx.identity.name);
  const after = cursor(headers["last-event-id"] ?? query.after, row);
  await refuseExpired(row, after, room);
  const leave = subscribers.enter(row.id);
  signal.addEventListener("abort", leave, { once: true });
  return {
    status: 200,
    headers: { "x-agent-run-id": row.id, "x-agent-session-id": row.session_id },
    stream: events(row, room, { after, signal, leave }),
  };
}

async function* events(
  row: RunView,
  room: HttpRoom,
  { after, signal, leave }: { after: number; signal: AbortSignal; leave: () => void },
): AsyncGenerator<SseMessage<RunEvent>> {
  try {
    if (isFinalStatus(row.status) && after >= row.last_seq) return;
    for await (const group of room.store.journal.follow({ runId: row.id }, { after, signal })) {
      for (const entry of group) {
        yield { data: toRunEvent(entry), event: entry.type, id: String(entry.runSeq) };
        if (isFinalEvent(entry.type)) return;
      }
    }
  } finally {
    leave();
  }
}

/** A run may be kept longer than its events. */
async function refuseExpired(row: RunView, after: number, room: HttpRoom): Promise<void> {
  if (after >= row.last_seq) return;
  const [next] = await room.store.journal.read({ runId: row.id }, { after, limit: 1 });
  if (next?.runSeq === after + 1) return;
  throw new ServiceError(
    "run_events_expired",
    `The events of run ${row.id} after ${after} are no longer kept. GET /v1/runs/${row.id} still tells how it ended.`,
  );
}

/** The number of the last event the client has: a whole number up to the newest one there is. */
function cursor(text: string | undefined, row: RunView): number {
  if (text === undefined || text === "") return 0;
  const after = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (after <= row.last_seq) return after;
  throw new ServiceError(
    "invalid_cursor",
    `The cursor ${JSON.stringify(text)} is not the number of an event of this run, which are 1 to ${row.last_seq}.`,
    { param: "Last-Event-ID" },
  );
}
