/** Turns that were at work before the client opened their session: somebody else began them, maybe elsewhere. */
import { isFinalEvent } from "../../agent/run/event.ts";
import { runningTurn } from "../../agent/run/run.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpSession } from "../session/session.ts";
import { AcpTurn } from "./turn.ts";
import { TurnReporter } from "./turn-reporter.ts";

/** A turn that a client can be told of. */
export interface LiveTurn {
  readonly runId: string;
  /** Its event behind which the telling begins; 0 for all of it. */
  readonly after: number;
}

/** The turn at work, to be told from its beginning. Undefined: there is none, or it is one of the client's own. */
export async function liveTurn(
  connection: AcpConnection,
  session: AcpSession,
): Promise<LiveTurn | undefined> {
  const { store } = await connection.deps();
  const running = await runningTurn(store, session.id);
  const isOwn = [...session.turns].some(({ runId }) => runId === running?.runId);
  return running && !isOwn ? { runId: running.runId, after: 0 } : undefined;
}

/** The same turn, to be told from now on, with the calls that are open. */
export async function fromNow(connection: AcpConnection, { runId }: LiveTurn): Promise<LiveTurn> {
  const { store } = await connection.deps();
  const events = await store.read
    .selectFrom("events")
    .select(["type", "data", "run_seq"])
    .where("run_id", "=", runId)
    .where("type", "in", ["tool.started", "tool.completed"])
    .orderBy("run_seq")
    .execute();
  const run = await store.find("runs", { id: runId });
  const open = new Map<string, number>();
  for (const { type, data, run_seq: seq } of events) {
    const { tool_call_id: callId } = JSON.parse(data) as { readonly tool_call_id: string };
    if (type === "tool.started") open.set(callId, seq ?? 0);
    else open.delete(callId);
  }
  return { runId, after: Math.min(run?.last_seq ?? 0, ...[...open.values()].map((seq) => seq - 1)) };
}

/**
 * Tells the client of the turn until its end, or until the session is closed. Its questions for leave are put to the
 * client too, and whoever answers first is heard; other questions are for those who began it.
 */
export async function watchTurn(
  connection: AcpConnection,
  session: AcpSession,
  { runId, after }: LiveTurn,
): Promise<void> {
  const deps = await connection.deps();
  const { agent, store, log } = deps;
  const turn = new AcpTurn();
  turn.begun(runId, (reason) => {
    agent.runs.stop(runId, reason).catch((error: unknown) => {
      log.error("a run could not be stopped", { run: runId, error });
    });
  });
  const left = new AbortController();
  const watched = { runId, cancel: () => turn.cancel(), leave: () => left.abort() };
  session.watched?.leave();
  session.watched = watched;
  const reporter = new TurnReporter({ connection, deps, session, turn });
  const signal = AbortSignal.any([session.signal, turn.signal, left.signal]);
  const isClosed = await closedQuestions(connection, session.id, runId);
  try {
    for await (const events of store.journal.follow({ runId }, { after, signal })) {
      await reporter.tell(events.filter((event) => !isClosed(event)));
      if (signal.aborted || events.some(({ type }) => isFinalEvent(type))) break;
    }
  } finally {
    await reporter.end();
    if (session.watched === watched) session.watched = undefined;
  }
}

/** Tells questions that are not to be put: those that have an answer by now, and those that are not for leave. */
async function closedQuestions(
  connection: AcpConnection,
  sessionId: string,
  runId: string,
): Promise<(event: JournalEvent) => boolean> {
  const { agent, store } = await connection.deps();
  const run = await store.find("runs", { id: runId });
  const open = new Set((await agent.deps.questions.open({ sessionId })).map(({ id }) => id));
  return ({ type, runSeq, data }) => {
    if (/^(?:clarify|sudo|secret)\./.test(type)) return true;
    const isOld = (runSeq ?? 0) <= (run?.last_seq ?? 0);
    return type === "approval.request" && isOld && !open.has(String(data["request_id"]));
  };
}
