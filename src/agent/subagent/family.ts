import { redact } from "../../base/observe/redact.ts";
import type { Store } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { textOf } from "../message.ts";
import { parseInput, type RunStatus } from "../run/run.ts";
import { headOf } from "../../base/text.ts";

/** A sub-agent as its run tells of it. */
export interface Subagent {
  readonly subagentId: string;
  readonly parentId: string;
  readonly sessionId: string;
  readonly depth: number;
  readonly goal: string;
  readonly model: string;
  readonly status: RunStatus;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
}

const MAX_LISTED = 500;
const MAX_GOAL_CHARACTERS = 1_000;

/** Sub-agents of `owner` that have not ended, oldest first; with `rootSessionId` those that work for this session. */
export async function activeSubagents(
  store: Store,
  where: { readonly owner: string; readonly rootSessionId?: string },
): Promise<readonly Subagent[]> {
  const rows = await store.read
    .selectFrom("runs")
    .selectAll()
    .where("parent_id", "is not", null)
    .where("owner", "=", where.owner)
    .where("ended_at", "is", null)
    .orderBy("created_at")
    .limit(MAX_LISTED)
    .execute();
  const all = rows.map((row) => ({ row, family: parseInput(row).family }));
  return all
    .filter(
      ({ family }) => where.rootSessionId === undefined || family?.root.sessionId === where.rootSessionId,
    )
    .map(({ row }) => describe(row));
}

/** The whole family below a run, parents before their children, as long as the runs are kept. */
export async function subagentsOf(store: Store, runId: string): Promise<readonly Subagent[]> {
  const found: Subagent[] = [];
  let parents = [runId];
  while (parents.length > 0 && found.length < MAX_LISTED) {
    const rows = await store.read
      .selectFrom("runs")
      .selectAll()
      .where("parent_id", "in", parents)
      .orderBy("created_at")
      .orderBy("id")
      .limit(MAX_LISTED - found.length)
      .execute();
    found.push(...rows.map(describe));
    parents = rows.map(({ id }) => id);
  }
  return found;
}

function describe(row: RunRow): Subagent {
  const { prompt, family } = parseInput(row);
  const last = prompt.at(-1);
  return {
    subagentId: row.id,
    parentId: row.parent_id ?? "",
    sessionId: row.session_id,
    depth: family?.depth ?? 1,
    goal: last ? headOf(redact(textOf(last)), MAX_GOAL_CHARACTERS) : "",
    model: row.model,
    status: row.status as RunStatus,
    createdAtMs: row.created_at,
    startedAtMs: row.started_at,
    endedAtMs: row.ended_at,
  };
}
