import type { Run } from "../../../generated/http/client/types.gen.ts";
import { isFinalEvent, describeRun, isFinalStatus, type RunView } from "../../agent/run/run.ts";
import { whileWaiting, type WaitEnd } from "../edge/answer.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { eventCursor } from "../control/feed.ts";
import { ownerFilter, sessionFilter, timeWindow } from "../control/page.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";

/** GET /v1/runs/{run_id}. With `wait`, answers when the run has ended or waits for an approval. */
export async function getRun(
  { path, query, ctx, raw }: HttpRequest<"getRun", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"getRun">> {
  const { owner } = ownerFilter(ctx);
  let row = await deps.agent.findRun(path.run_id, owner);
  if (query.wait !== undefined && query.wait > 0 && !isSettled(row)) {
    const release = subscribers.enter(row.id);
    await settled(row, deps, { waitMs: query.wait * 1000, client: raw.signal }).finally(release);
    row = await deps.agent.findRun(row.id, owner);
  }
  return { status: 200, body: await showRun(row, deps) };
}

/** Returns a run with its session key and open questions. */
export async function showRun(row: RunView, deps: HttpDeps): Promise<Run> {
  const [run] = await showRuns([row], deps);
  if (!run) throw new Error(`run ${row.id} was not shown`);
  return run;
}

/** Returns runs as {@link showRun} does, in the same order. */
async function showRuns(rows: readonly RunView[], { runs, agent }: HttpDeps): Promise<Run[]> {
  const waiting = rows.filter(({ status }) => status === "waiting_for_approval").map(({ id }) => id);
  const questions = await runs.reads.openQuestionsOf(waiting);
  const sessions = await agent.sessions.reads.originsOf([...new Set(rows.map((row) => row.session_id))]);
  const triggers = await runs.reads.triggersOf(rows.map(({ id }) => id));
  return rows.map((row) => {
    const own = questions.filter((ask) => ask.run_id === row.id);
    const { session_key: sessionKey = null, source = null } = sessions.get(row.session_id) ?? {};
    return describeRun(row, { sessionKey, source, trigger: triggers.get(row.id) }, own);
  });
}

function isSettled({ status }: RunView): boolean {
  return status === "waiting_for_approval" || isFinalStatus(status);
}

/** Resolves when the run ends or asks a question, at the timeout, or when the client disconnects. */
function settled({ id: runId, last_seq: after }: RunView, { store, clock }: HttpDeps, until: WaitEnd) {
  return whileWaiting(clock, until, async (signal) => {
    // Every status change is committed together with its event.
    for await (const group of store.journal.follow({ runId }, { after, signal })) {
      if (group.some(({ type }) => isFinalEvent(type) || type.endsWith(".request"))) return;
    }
  });
}

/** GET /v1/runs: returns the caller's runs, newest first. */
export async function listRuns(
  { query, ctx }: HttpRequest<"listRuns", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listRuns">> {
  const { limit, after, session_id: session } = query;
  const { owner } = ownerFilter(ctx);
  if (after !== undefined) await checkCursor(deps.store, owner, after);
  const cursor = await eventCursor(deps);
  const page = { ...filterOf(query), ...ownerFilter(ctx), after, count: limit + 1 };
  // The session's owner is checked once; only a status filter then reads the rows of its runs.
  const sessionId = session === undefined ? undefined : await sessionFilter(session, ctx, deps);
  const select = async (): Promise<readonly string[]> => {
    if (session === undefined) return deps.runs.reads.listIds(page);
    return sessionId === undefined ? [] : deps.runs.reads.listIds({ ...page, sessionId });
  };
  let ids = await select();
  let rows = await deps.runs.reads.byId(ids.slice(0, limit));
  if (await settleAbandoned(rows, deps)) {
    // Runs of dead processes have another status now.
    ids = await select();
    rows = await deps.runs.reads.byId(ids.slice(0, limit));
  }
  const data = rows.length === 0 ? [] : await showRuns(rows, deps);
  const edges = { first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return {
    status: 200,
    headers: { "x-agent-event-cursor": cursor },
    body: { object: "list", data, ...edges, has_more: ids.length > limit },
  };
}

type RunPage = Parameters<HttpDeps["runs"]["reads"]["listIds"]>[0];

function filterOf(query: HttpRequest<"listRuns", HttpContext>["query"]): Omit<RunPage, "after" | "count"> {
  const { status, kind, source, model, key, parent_id: parentId, q } = query;
  return {
    ...timeWindow(query),
    ...(status === undefined ? {} : { statuses: status }),
    ...(kind === undefined ? {} : { kinds: kind }),
    ...(source === undefined ? {} : { sources: source }),
    ...(model === undefined ? {} : { models: model }),
    ...(key === undefined ? {} : { keys: key }),
    ...(parentId === undefined ? {} : { parentId }),
    ...(q === undefined ? {} : { text: q }),
  };
}

/** Closes the runs whose process is dead. Resolves to false if nothing changed. */
async function settleAbandoned(rows: readonly RunView[], { agent, runs }: HttpDeps): Promise<boolean> {
  const open = rows.filter(({ id, status }) => !isFinalStatus(status) && !runs.isAtWork(id));
  return agent.settle([...new Set(open.map(({ session_id: id }) => id))]);
}

async function checkCursor(store: Store, owner: string | undefined, after: string): Promise<void> {
  const run = await store.find("runs", { id: after });
  if (run && (owner === undefined || run.owner === owner)) return;
  const what = `after must be the id of one of your runs, such as last_id of the previous page; ${JSON.stringify(after)} is not.`;
  throw new ServiceError("invalid_cursor", what, { param: "after" });
}

/** GET /v1/runs/{run_id}/trace */
export async function getRunTrace(
  { path, query, ctx }: HttpRequest<"getRunTrace", HttpContext>,
  { runs, agent }: HttpDeps,
): Promise<HttpResponse<"getRunTrace">> {
  const run = await agent.findRun(path.run_id, ownerFilter(ctx).owner);
  const hasContent = query.include?.includes("content") ?? false;
  return { status: 200, body: await runs.reads.trace(run, { hasContent }) };
}

/** Counts the clients of each run: event streams, and requests that wait for its end. */
export class RunSubscribers {
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds a client. The returned function removes it, once. ServiceError `too_many_subscribers`. */
  enter(runId: string): () => void {
    const count = this.#counts.get(runId) ?? 0;
    if (count >= this.#max) {
      throw new ServiceError(
        "too_many_subscribers",
        `${this.#max} clients already follow this run, which is the limit (limits.max_subscribers_per_run).`,
        { retryAfterSeconds: 5 },
      );
    }
    this.#counts.set(runId, count + 1);
    let entered = true;
    return () => {
      if (!entered) return;
      entered = false;
      const left = (this.#counts.get(runId) ?? 1) - 1;
      if (left > 0) this.#counts.set(runId, left);
      else this.#counts.delete(runId);
    };
  }
}
