import type { RunEvent, RunToolCall } from "../../../generated/http/client/types.gen.ts";
import { toRunEvent } from "../../agent/run/event.ts";
import { isFinalStatus } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import type { Store } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";

/**
 * What a run whose first events are gone still tells, as events: what it said last, what it asked of the client, and
 * how it ended. Undefined when the run is gone too, or its end.
 */
export async function remainsOf(store: Store, runId: string): Promise<readonly RunEvent[] | undefined> {
  const run = await store.read.selectFrom("runs").selectAll().where("id", "=", runId).executeTakeFirst();
  if (!run) return undefined;
  const known = [...head(run), ...lastWords(run)];
  if (!isFinalStatus(run.status)) return known;
  const [last] = await store.journal.read({ runId }, { after: run.last_seq - 1, limit: 1 });
  return last ? [...known, toRunEvent(last)] : undefined;
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

function lastWords(run: RunRow): RunEvent[] {
  const at = { run_id: run.id, seq: 3, timestamp: run.updated_at / 1000 };
  const action = JSON.parse(run.required_action ?? "{}") as { readonly tool_calls?: readonly RunToolCall[] };
  const asked = (action.tool_calls ?? []).map(({ id, name, arguments: json }): RunEvent => ({
    event: "tool.requested",
    ...at,
    tool_call_id: id,
    tool: name,
    arguments: json,
  }));
  if (run.output === null || run.output === "") return asked;
  const id = `msg_${run.id.slice("run_".length)}`;
  return [{ event: "message.completed", ...at, message_id: id, text: run.output }, ...asked];
}
