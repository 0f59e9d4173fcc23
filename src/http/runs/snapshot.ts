import type { RunSnapshotEvent } from "../../../generated/http/client/types.gen.ts";
import { textOf, type Message } from "../../agent/message.ts";
import type { RunView } from "../../agent/run/run.ts";
import type { HttpDeps } from "../deps.ts";
import { showRun } from "./runs.ts";

/** Where the events of a run begin that are all still there. */
export interface FirstKept {
  readonly seq: number;
  readonly atMs: number;
}

/**
 * The first event of a run from which on none is missing; undefined when none is kept. Steering may be kept from
 * before that, since recovery needs it.
 */
export async function firstKept({ store }: HttpDeps, runId: string): Promise<FirstKept | undefined> {
  const row = await store.read
    .selectFrom("events")
    .select(["run_seq", "created_at"])
    .where("run_id", "=", runId)
    .where("type", "not in", ["run.steer_accepted", "run.steered"])
    .orderBy("run_seq")
    .limit(1)
    .executeTakeFirst();
  return row?.run_seq == null ? undefined : { seq: row.run_seq, atMs: row.created_at };
}

/** What takes the place of the events before `first`: the run as it is, and what was said before them. */
export async function runSnapshot(
  deps: HttpDeps,
  { id, owner }: RunView,
  first: FirstKept,
): Promise<RunSnapshotEvent & { readonly event: "run.snapshot" }> {
  const row = await deps.agent.findRun(id, owner);
  return {
    event: "run.snapshot",
    run_id: id,
    seq: first.seq - 1,
    timestamp: deps.clock.now() / 1000,
    run: await showRun(row, deps),
    text: await textBefore(deps, row, first),
    truncated: true,
    first_seq: first.seq,
  };
}

const MAX_MESSAGES = 200;
const MAX_CHARACTERS = 1_048_576;

/** Texts of the run's messages from before the first event that is kept, the newest of them when there are many. */
async function textBefore({ store }: HttpDeps, run: RunView, { atMs }: FirstKept): Promise<string> {
  const rows = await store.read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", run.session_id)
    .where("run_id", "=", run.id)
    .where("role", "=", "assistant")
    .where("created_at", "<=", atMs)
    .orderBy("seq", "desc")
    .limit(MAX_MESSAGES)
    .execute();
  const texts: string[] = [];
  let left = MAX_CHARACTERS;
  for (const { content } of rows) {
    const text = textOf(JSON.parse(content) as Message);
    left -= text.length;
    if (left < 0) break;
    if (text !== "") texts.unshift(text);
  }
  return texts.length === 0 ? (run.output ?? "") : texts.join("\n\n");
}
