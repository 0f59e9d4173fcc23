import type { RunEvent } from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
import { isFinalEvent, toRunEvent } from "../agent/event.ts";
import { describeRun, findRun, isFinalStatus } from "../agent/run.ts";
import { ServiceError } from "../base/errors.ts";
import type { RunRow } from "../store/tables.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import type { HttpContext, HttpRoom } from "./room.ts";

/** GET /v1/runs/{run_id} */
export async function getRun(
  { path, ctx }: HttpRequest<"getRun", HttpContext>,
  { store, asks }: HttpRoom,
): Promise<HttpResponse<"getRun">> {
  const row = await findRun(store, path.run_id, ctx.identity.name);
  const open = row.status === "waiting_for_approval" ? await asks.open({ runId: row.id }) : [];
  const session = await store.read
    .selectFrom("sessions")
    .select("session_key")
    .where("id", "=", row.session_id)
    .executeTakeFirst();
  return { status: 200, body: describeRun(row, session?.session_key ?? null, open) };
}

/** GET /v1/runs/{run_id}/events: replay after the cursor, then live, to the run's final event. */
export class RunStreams {
  readonly #room: HttpRoom;
  readonly #subscribers = new Map<string, number>();

  constructor(room: HttpRoom) {
    this.#room = room;
  }

  async open(request: HttpRequest<"streamRunEvents", HttpContext>): Promise<HttpResponse<"streamRunEvents">> {
    const { path, headers, query, ctx, signal } = request;
    const row = await findRun(this.#room.store, path.run_id, ctx.identity.name);
    const after = cursor(headers["last-event-id"] ?? query.after, row);
    await this.#refuseExpired(row, after);
    const leave = this.#enter(row.id);
    signal.addEventListener("abort", leave, { once: true });
    return {
      status: 200,
      headers: { "x-agent-run-id": row.id, "x-agent-session-id": row.session_id },
      stream: this.#events(row, { after, signal, leave }),
    };
  }

  async *#events(
    row: RunRow,
    { after, signal, leave }: { after: number; signal: AbortSignal; leave: () => void },
  ): AsyncGenerator<SseMessage<RunEvent>> {
    try {
      if (isFinalStatus(row.status) && after >= row.last_seq) return;
      for await (const group of this.#room.store.journal.follow({ runId: row.id }, { after, signal })) {
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
  async #refuseExpired(row: RunRow, after: number): Promise<void> {
    if (after >= row.last_seq) return;
    const [next] = await this.#room.store.journal.read({ runId: row.id }, { after, limit: 1 });
    if (next?.runSeq === after + 1) return;
    throw new ServiceError(
      "run_events_expired",
      `The events of run ${row.id} after ${after} are no longer kept. GET /v1/runs/${row.id} still tells how it ended.`,
    );
  }

  /** Takes a place among the run's subscribers; the returned function gives it back, once. */
  #enter(runId: string): () => void {
    const count = this.#subscribers.get(runId) ?? 0;
    const limit = this.#room.settings.maxSubscribersPerRun;
    if (count >= limit) {
      throw new ServiceError(
        "too_many_subscribers",
        `${limit} clients follow this run, which is the limit (limits.max_subscribers_per_run).`,
        { retryAfterSeconds: 5 },
      );
    }
    this.#subscribers.set(runId, count + 1);
    let entered = true;
    return () => {
      if (!entered) return;
      entered = false;
      const left = (this.#subscribers.get(runId) ?? 1) - 1;
      if (left > 0) this.#subscribers.set(runId, left);
      else this.#subscribers.delete(runId);
    };
  }
}

/** The number of the last event the client has: a whole number up to the newest one there is. */
function cursor(text: string | undefined, row: RunRow): number {
  if (text === undefined || text === "") return 0;
  const after = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (after <= row.last_seq) return after;
  throw new ServiceError(
    "invalid_cursor",
    `The cursor ${JSON.stringify(text)} is not the number of an event of this run, which are 1 to ${row.last_seq}.`,
    { param: "Last-Event-ID" },
  );
}
