import type { Run } from "../../../generated/http/client/types.gen.ts";
import { isFinalEvent } from "../../agent/run/event.ts";
import { describeRun, isFinalStatus, type RunView } from "../../agent/run/run.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { RunSubscribers } from "./subscribers.ts";

/** GET /v1/runs/{run_id}; with `wait` the answer comes when the run has ended or needs an answer itself. */
export async function getRun(
  { path, query, ctx, raw }: HttpRequest<"getRun", HttpContext>,
  deps: HttpDeps,
  subscribers: RunSubscribers,
): Promise<HttpResponse<"getRun">> {
  const owner = ctx.identity.name;
  let row = await deps.agent.findRun(path.run_id, owner);
  if (query.wait !== undefined && query.wait > 0 && !isSettled(row)) {
    const leave = subscribers.enter(row.id);
    await settled(row, deps, { waitMs: query.wait * 1000, client: raw.signal }).finally(leave);
    row = await deps.agent.findRun(row.id, owner);
  }
  return { status: 200, body: await showRun(row, deps) };
}

/** A run with its session's key and its open questions. */
export async function showRun(row: RunView, deps: HttpDeps): Promise<Run> {
  const [run] = await showRuns([row], deps);
  if (!run) throw new Error(`run ${row.id} was not shown`);
  return run;
}

/** As {@link showRun}, in the same order. */
export async function showRuns(rows: readonly RunView[], { store }: HttpDeps): Promise<Run[]> {
  const waiting = rows.filter(({ status }) => status === "waiting_for_approval").map(({ id }) => id);
  const questions =
    waiting.length === 0
      ? []
      : await store.read
          .selectFrom("questions")
          .selectAll()
          .where("run_id", "in", waiting)
          .where("status", "=", "open")
          .orderBy("created_at")
          .orderBy("id")
          .execute();
  const sessionIds = [...new Set(rows.map((row) => row.session_id))];
  const sessions = await store.read
    .selectFrom("sessions")
    .select(["id", "session_key"])
    .where("id", "in", sessionIds)
    .execute();
  const keys = new Map(sessions.map(({ id, session_key: key }) => [id, key]));
  return rows.map((row) => {
    const own = questions.filter((ask) => ask.run_id === row.id);
    return describeRun(row, keys.get(row.session_id) ?? null, own);
  });
}

function isSettled({ status }: RunView): boolean {
  return status === "waiting_for_approval" || isFinalStatus(status);
}

/** Resolves when the run has ended or asks something, when the time is over or when the client has left. */
async function settled(
  { id: runId, last_seq: after }: RunView,
  { store, clock }: HttpDeps,
  { waitMs, client }: { readonly waitMs: number; readonly client: AbortSignal },
): Promise<void> {
  const enough = new AbortController();
  const stop = () => enough.abort();
  const cancelTimer = clock.after(waitMs, stop);
  client.addEventListener("abort", stop, { once: true });
  try {
    // Every change of the status is committed together with its event.
    for await (const group of store.journal.follow({ runId }, { after, signal: enough.signal })) {
      if (group.some(({ type }) => isFinalEvent(type) || type.endsWith(".request"))) return;
    }
  } finally {
    cancelTimer();
    client.removeEventListener("abort", stop);
  }
}
