/** Lists of runs, and what triggered them. */
import type { Store } from "../../store/store.ts";
import { isFinalStatus, type FinalStatus, type RunStatus } from "./run.ts";

type Reader = Pick<Store, "read">;

/** Which runs a list has. */
export interface RunFilter {
  /** Undefined: the runs of all owners. */
  readonly owner?: string;
  readonly sessionId?: string;
  readonly statuses?: readonly RunStatus[];
  readonly kinds?: readonly string[];
  /** Sources of their sessions. */
  readonly sources?: readonly string[];
  /** Each `provider:model`. */
  readonly models?: readonly string[];
  readonly keys?: readonly string[];
  readonly parentId?: string;
  /** Part of the start of the prompt in any case, or the whole id. */
  readonly text?: string;
  readonly fromMs?: number;
  readonly toMs?: number;
}

/** A page of run ids, newest first: ids of runs sort by their creation time. */
export interface RunPage extends RunFilter {
  /** Only runs older than this one. */
  readonly after?: string | undefined;
  readonly count: number;
}

const FINAL = ["completed", "failed", "cancelled", "interrupted"] as const satisfies readonly FinalStatus[];

/**
 * Returns the newest run ids. Those of an owner are read status by status, each one page of its own index; the pages are
 * then merged.
 */
export async function listRunIds(store: Reader, page: RunPage): Promise<readonly string[]> {
  const { owner, sessionId, statuses, count } = page;
  const select = (how: (runs: RunQuery) => RunQuery) => idsOf(how(filtered(store, page)), count);
  if (owner === undefined || sessionId !== undefined) {
    return select((runs) => (statuses === undefined ? runs : runs.where("status", "in", statuses)));
  }
  const isWanted = (status: RunStatus) => statuses?.includes(status) ?? true;
  const open = statuses?.filter((status) => !isFinalStatus(status));
  const lists: string[][] = [];
  // Open runs first: a run that ends between the queries may appear twice, but is never missing.
  if (open?.length !== 0) {
    lists.push(
      await select((runs) => {
        const unended = runs.where("ended_at", "is", null);
        return open === undefined ? unended : unended.where("status", "in", open);
      }),
    );
  }
  for (const final of FINAL.filter(isWanted))
    lists.push(await select((runs) => runs.where("status", "=", final).where("ended_at", "is not", null)));
  const ids = [...new Set(lists.flat())];
  return ids.sort((a, b) => (a < b ? 1 : -1)).slice(0, count);
}

const idsOfRuns = ({ read }: Reader) => read.selectFrom("runs").select("id");
type RunQuery = ReturnType<typeof idsOfRuns>;

async function idsOf(runs: RunQuery, count: number): Promise<string[]> {
  const rows = await runs.orderBy("id", "desc").limit(count).execute();
  return rows.map(({ id }) => id);
}

/** All conditions but the statuses. */
function filtered(store: Reader, page: RunPage): RunQuery {
  const { owner, sessionId, kinds, sources, models, keys, parentId, text } = page;
  let runs = idsOfRuns(store);
  if (owner !== undefined) runs = runs.where("owner", "=", owner);
  if (sessionId !== undefined) runs = runs.where("session_id", "=", sessionId);
  if (page.after !== undefined) runs = runs.where("id", "<", page.after);
  if (page.toMs !== undefined) runs = runs.where("created_at", "<", page.toMs);
  if (page.fromMs !== undefined) runs = runs.where("created_at", ">=", page.fromMs);
  if (kinds !== undefined) runs = runs.where("kind", "in", kinds);
  if (models !== undefined) runs = runs.where("model", "in", models);
  if (keys !== undefined) runs = runs.where("key", "in", keys);
  if (parentId !== undefined) runs = runs.where("parent_id", "=", parentId);
  if (sources !== undefined) {
    runs = runs.where(({ exists, selectFrom }) =>
      exists(
        selectFrom("sessions")
          .select("sessions.id")
          .whereRef("sessions.id", "=", "runs.session_id")
          .where("sessions.source", "in", sources),
      ),
    );
  }
  return text === undefined ? runs : withText(runs, text);
}

/** A text is in another one when that becomes another one without it: no character of it is a wildcard. */
function withText(runs: RunQuery, text: string): RunQuery {
  return runs.where((is) => {
    const preview = is.fn<string>("lower", [is.fn.coalesce("input_preview", is.val(""))]);
    const without = is.fn<string>("replace", [preview, is.val(text.toLowerCase()), is.val("")]);
    return is.or([is("id", "=", text), is(without, "!=", preview)]);
  });
}

/**
 * Returns what triggered each of these runs, a webhook delivery or an occurrence of a job, by run. The row has it at the
 * beginning of where its answer goes.
 */
export async function triggersOf(
  { read }: Reader,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (runIds.length === 0) return new Map();
  const rows = await read
    .selectFrom("runs")
    .select((is) => [
      "id",
      is.fn<string>("substr", ["reply_to", is.val(1), is.val(TRIGGER_CHARACTERS)]).as("start"),
    ])
    .where("id", "in", runIds)
    .where("reply_to", "is not", null)
    .execute();
  return new Map(
    rows.flatMap(({ id, start }) => {
      const [, ref] = /^\{"ref":"((?:dlv|occ)_[0-9a-z]+)"/.exec(start) ?? [];
      return ref === undefined ? [] : [[id, ref] as const];
    }),
  );
}

const TRIGGER_CHARACTERS = 64;
