import type { SessionFrame } from "../../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../../generated/http/contract.gen.ts";
import { schemas } from "../../../../generated/http/schemas.gen.ts";
import { toRunEvent, toSessionEvent } from "../../../agent/run/run.ts";
import { ServiceError } from "../../../base/errors.ts";
import type { JournalEvent } from "../../../store/journal/journal.ts";
import type { SessionRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import type { RunSubscribers } from "../../runs/read.ts";
import { sessionOf } from "./sessions.ts";

/** GET /v1/sessions/{session_id}/events: the events behind a cursor, then those to come. */
export async function streamSessionEvents(
  { path, query, headers, ctx, signal }: HttpRequest<"streamSessionEvents", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"streamSessionEvents">> {
  const row = await sessionOf(path.session_id, ctx, deps);
  const types = query.types && typesOf(query.types);
  const lastEventId = headers["last-event-id"];
  const isResumed = lastEventId !== undefined && lastEventId !== "";
  const after = isResumed
    ? parseCursor(lastEventId, row, "Last-Event-ID")
    : query.after === undefined
      ? row.last_seq
      : parseCursor(query.after, row, "after");
  await requireKept(row, after, deps);
  const release = subscribers.enter(row.id);
  signal.addEventListener("abort", release, { once: true });
  return { status: 200, stream: follow(row, deps, { after, types, signal, release }) };
}

async function* follow(
  { id }: SessionRow,
  { store }: HttpDeps,
  wanted: {
    readonly after: number;
    readonly types: ReadonlySet<string> | undefined;
    readonly signal: AbortSignal;
    readonly release: () => void;
  },
): AsyncGenerator<SseMessage<SessionFrame>> {
  const { types, signal, release } = wanted;
  let { after } = wanted;
  try {
    for await (const group of store.journal.follow({ sessionId: id }, { after, signal })) {
      for (const entry of group) {
        if (entry.seq <= after) continue;
        // The client continues after its last event, and learns then that this one is no longer kept.
        if (entry.seq > after + 1) throw expired();
        after = entry.seq;
        if (types === undefined || types.has(entry.type)) yield frame(entry);
      }
    }
  } finally {
    release();
  }
}

function frame(entry: JournalEvent): SseMessage<SessionFrame> {
  const data = entry.runId === null ? toSessionEvent(entry) : toRunEvent(entry);
  return { data, event: entry.type, id: String(entry.seq) };
}

/** ServiceError `events_expired` when the next event of the session was deleted. */
async function requireKept(
  { id, last_seq: last }: SessionRow,
  after: number,
  { store }: HttpDeps,
): Promise<void> {
  if (after >= last) return;
  const [next] = await store.journal.read({ sessionId: id }, { after, limit: 1 });
  if (next?.seq !== after + 1) throw expired();
}

function expired(): ServiceError {
  const what =
    "The events behind this cursor are no longer kept. Read the messages of the session, then follow without a cursor.";
  return new ServiceError("events_expired", what);
}

function parseCursor(text: string, { last_seq: last }: SessionRow, param: string): number {
  const after = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (after <= last) return after;
  const what = `${param} is not the number of an event of this session. Its events are 1 to ${last}.`;
  throw new ServiceError("invalid_cursor", what, { param });
}

/** Returns the names of events that the patterns name. ServiceError `unsupported_parameter` for one that names none. */
function typesOf(patterns: readonly string[]): ReadonlySet<string> {
  const known = Object.values(schemas).flatMap((schema) => {
    const { event } = (schema["properties"] ?? {}) as { event?: { const?: string } };
    return event?.const === undefined ? [] : [event.const];
  });
  return new Set(
    patterns.flatMap((pattern) => {
      const kind = pattern.endsWith(".*") ? pattern.slice(0, -1) : undefined;
      const found = known.filter((name) => (kind === undefined ? name === pattern : name.startsWith(kind)));
      if (found.length > 0) return found;
      const what = `No event is named ${JSON.stringify(pattern)}. The events are: ${known.join(", ")}.`;
      throw new ServiceError("unsupported_parameter", what, { param: "types" });
    }),
  );
}
