import type { RunStatus } from "../../../generated/http/client/types.gen.ts";
import { isFinalStatus, runViewColumns, type RunView } from "../../agent/run/run.ts";
import { findSession } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { showRuns } from "./runs.ts";

/** GET /v1/runs: the caller's runs, newest first. Ids of runs sort by their time. */
export async function listRuns(
  { query, ctx }: HttpRequest<"listRuns", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listRuns">> {
  const { limit, after, status, session_id: sessionId } = query;
  const owner = ctx.identity.name;
  if (after !== undefined) await checkCursor(deps.store, owner, after);
  const page = { owner, after, status, count: limit + 1 };
  const select = () =>
    sessionId === undefined ? newest(deps.store, page) : inSession(deps.store, sessionId, page);
  let ids = await select();
  let rows = await read(deps.store, ids.slice(0, limit));
  if (await settled(rows, deps)) {
    // Those whose process is gone have another status by now.
    ids = await select();
    rows = await read(deps.store, ids.slice(0, limit));
  }
  const data = rows.length === 0 ? [] : await showRuns(rows, deps);
  const edges = { first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { status: 200, body: { object: "list", data, ...edges, has_more: ids.length > limit } };
}

/** Closes those of the runs whose process is gone. False: there are none, and the rows are good. */
async function settled(rows: readonly RunView[], { agent, runs }: HttpDeps): Promise<boolean> {
  const open = rows.filter(({ id, status }) => !isFinalStatus(status) && !runs.isAtWork(id));
  return agent.settle([...new Set(open.map(({ session_id: id }) => id))]);
}

interface Page {
  readonly owner: string;
  /** Only what is older than this run. */
  readonly after: string | undefined;
  readonly status: RunStatus | undefined;
  readonly count: number;
}

const FINAL = ["completed", "failed", "cancelled", "interrupted"] as const satisfies readonly RunStatus[];

/** The newest ids of an owner. Each status is read from its index alone, at most a page of it; then they are merged. */
async function newest(store: Store, { status, ...page }: Page): Promise<string[]> {
  if (status !== undefined)
    return FINAL.some((final) => final === status) ? ended(store, status, page) : active(store, status, page);
  // Those at work first: a run that ends meanwhile is met twice, and never missed.
  const lists = [await active(store, undefined, page)];
  for (const final of FINAL) lists.push(await ended(store, final, page));
  const ids = [...new Set(lists.flat())];
  return ids.sort((a, b) => (a < b ? 1 : -1)).slice(0, page.count);
}

type OwnPage = Omit<Page, "status">;

async function active(store: Store, status: RunStatus | undefined, page: OwnPage): Promise<string[]> {
  const { owner, after, count } = page;
  const open = store.read
    .selectFrom("runs")
    .select("id")
    .where("owner", "=", owner)
    .where("ended_at", "is", null);
  const older = after === undefined ? open : open.where("id", "<", after);
  const fitting = status === undefined ? older : older.where("status", "=", status);
  const rows = await fitting.orderBy("id", "desc").limit(count).execute();
  return rows.map(({ id }) => id);
}

async function ended(store: Store, status: RunStatus, { owner, after, count }: OwnPage): Promise<string[]> {
  const over = store.read
    .selectFrom("runs")
    .select("id")
    .where("owner", "=", owner)
    .where("status", "=", status)
    .where("ended_at", "is not", null);
  const older = after === undefined ? over : over.where("id", "<", after);
  const rows = await older.orderBy("id", "desc").limit(count).execute();
  return rows.map(({ id }) => id);
}

/** The session tells whose its runs are: so their rows are read only where a status is asked for. */
async function inSession(store: Store, name: string, page: Page): Promise<string[]> {
  const { owner, after, status, count } = page;
  const session = await findSession(store, { owner, name }).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "session_not_found") return undefined;
    throw error;
  });
  if (!session) return [];
  const runs = store.read.selectFrom("runs").select("id").where("session_id", "=", session.id);
  const older = after === undefined ? runs : runs.where("id", "<", after);
  const fitting = status === undefined ? older : older.where("status", "=", status);
  const rows = await fitting.orderBy("id", "desc").limit(count).execute();
  return rows.map(({ id }) => id);
}

async function read(store: Store, ids: readonly string[]): Promise<RunView[]> {
  if (ids.length === 0) return [];
  const runs = store.read.selectFrom("runs").select(runViewColumns).where("id", "in", ids);
  return runs.orderBy("id", "desc").execute();
}

async function checkCursor(store: Store, owner: string, after: string): Promise<void> {
  const run = await store.read
    .selectFrom("runs")
    .select("id")
    .where("id", "=", after)
    .where("owner", "=", owner)
    .executeTakeFirst();
  if (run) return;
  const what = `after must be the id of a run, as in last_id; there is no run ${JSON.stringify(after)}.`;
  throw new ServiceError("invalid_cursor", what, { param: "after" });
}
