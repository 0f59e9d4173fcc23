import type { Store } from "../../store/store.ts";

/** The run at work in a session. */
export interface RunningTurn {
  readonly runId: string;
  /** Effective `provider:model`. */
  readonly model: string;
  /** Whether it is a turn of the agent, which can be told something, and no compression. */
  readonly isTurn: boolean;
}

/** Whatever process it is at work in. Undefined: none is. */
export async function runningTurn(
  { read }: Pick<Store, "read">,
  sessionId: string,
): Promise<RunningTurn | undefined> {
  const row = await read
    .selectFrom("runs")
    .select(["id", "kind", "model"])
    .where("session_id", "=", sessionId)
    .where("ended_at", "is", null)
    .where("started_at", "is not", null)
    .orderBy("created_at", "desc")
    .limit(1)
    .executeTakeFirst();
  return row && { runId: row.id, model: row.model, isTurn: row.kind !== "compression" };
}
