/** Responses, rebuilt from the journal. */
import type { ResponseStreamEvent, RunEvent, RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { toRunEvent, isFinalStatus } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { ResponseRow, RunRow } from "../../store/schema/tables.ts";
import { ResponseReducer } from "./reducer.ts";
import { storedRequest } from "./queries.ts";
import { shuttingDown } from "../prompt/submission.ts";
import { nameOfId } from "../../agent/session/session.ts";

/** Events of a run that are read at once. */
const PAGE = { limit: 512, maxBytes: 262_144 };

/**
 * Returns a stored response as it is now. When its first events have expired, it is rebuilt from its run.
 * ServiceError `run_events_expired` when the run does not say how it ended.
 */
export async function readResponse(store: Store, row: ResponseRow): Promise<ResponseReducer> {
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  if (await reduceEvents(store, reducer, row.run_id)) return reducer;
  const rebuilt = await rebuildFromRun(store, row.run_id);
  if (!rebuilt) throw expired(reducer);
  const shortened = new ResponseReducer(row.run_id, storedRequest(row));
  for (const event of rebuilt) shortened.take(event);
  return shortened;
}

/** Returns a stored response from all its events. ServiceError `run_events_expired`. */
export async function readComplete(store: Store, row: ResponseRow): Promise<ResponseReducer> {
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  if (await reduceEvents(store, reducer, row.run_id)) return reducer;
  throw expired(reducer);
}

/** Applies all committed events of a run. Returns false when the first ones are missing. */
export async function reduceEvents(store: Store, reducer: ResponseReducer, runId: string): Promise<boolean> {
  for (;;) {
    const page = await store.journal.read({ runId }, { after: reducer.lastSeq, ...PAGE });
    for (const entry of page) {
      if (entry.runSeq !== reducer.lastSeq + 1) return false;
      reducer.take(toRunEvent(entry));
    }
    if (page.length === 0 || reducer.isOver) return reducer.count > 0;
    // Yields to other work during a long run.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Yields the events of a response with a number above `after`. */
export async function* responseEvents(
  reducer: ResponseReducer,
  events: AsyncIterable<RunEvent>,
  after = -1,
): AsyncGenerator<SseMessage<ResponseStreamEvent>> {
  for await (const event of events) {
    // Events expired before this slow reader got them.
    if (event.seq !== reducer.lastSeq + 1) throw expired(reducer);
    for (const made of reducer.take(event)) {
      if (made.sequence_number > after) yield { data: made, event: made.type };
    }
  }
  // The store is closing. The reader must reconnect, and must not take this for the end.
  if (!reducer.isOver) throw shuttingDown();
}

function expired({ id }: ResponseReducer): ServiceError {
  return new ServiceError(
    "run_events_expired",
    `Some events of ${id} have expired, so it cannot be replayed.`,
  );
}

/**
 * Returns events that describe a run whose first events have expired: its last text, its calls for the client, and
 * its end. Undefined when the run or its final event is gone.
 */
async function rebuildFromRun(store: Store, runId: string): Promise<readonly RunEvent[] | undefined> {
  const run = await store.find("runs", { id: runId });
  if (!run) return undefined;
  const soFar = [...head(run), ...lastOutput(run)];
  if (!isFinalStatus(run.status)) return soFar;
  const [last] = await store.journal.read({ runId }, { after: run.last_seq - 1, limit: 1 });
  return last ? [...soFar, toRunEvent(last)] : undefined;
}

type Head = Extract<RunEvent, { event: "run.queued" | "run.started" }>;

function head(run: RunRow): RunEvent[] {
  const about = {
    run_id: run.id,
    session_id: nameOfId(run.session_id),
    model: run.model,
    kind: run.kind as Head["kind"],
  };
  const queued: RunEvent = { event: "run.queued", seq: 1, timestamp: run.created_at / 1000, ...about };
  const { started_at: startedAt } = run;
  if (startedAt === null) return [queued];
  return [queued, { event: "run.started", seq: 2, timestamp: startedAt / 1000, ...about }];
}

function lastOutput(run: RunRow): RunEvent[] {
  const at = { run_id: run.id, seq: 3, timestamp: run.updated_at / 1000 };
  const action = JSON.parse(run.required_action ?? "{}") as { readonly tool_calls?: readonly RunToolCall[] };
  const calls = (action.tool_calls ?? []).map(({ id, name, arguments: json }): RunEvent => ({
    event: "tool.requested",
    ...at,
    tool_call_id: id,
    tool: name,
    arguments: json,
  }));
  if (run.output === null || run.output === "") return calls;
  const id = `msg_${run.id.slice("run_".length)}`;
  return [{ event: "message.completed", ...at, message_id: id, text: run.output }, ...calls];
}
