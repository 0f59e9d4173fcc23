/** Follows turns of other clients that were running when the client opened their session. */
import { isFinalEvent, runningTurn } from "../../agent/run/run.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { type AcpConnection, type AcpSession, AcpTurn } from "../wire/connection.ts";
import { TurnReporter } from "./turn-reporter.ts";

/** A running turn that the client can follow. */
export interface LiveTurn {
  readonly runId: string;
  /** The event after which to start; 0 for all events. */
  readonly after: number;
}

/** Returns the running turn from its beginning, or undefined if there is none or the client itself started it. */
export async function liveTurn(
  connection: AcpConnection,
  session: AcpSession,
): Promise<LiveTurn | undefined> {
  const { store } = await connection.deps();
  const running = await runningTurn(store, session.id);
  const isOwn = [...session.turns].some(({ runId }) => runId === running?.runId);
  return running && !isOwn ? { runId: running.runId, after: 0 } : undefined;
}

/** Returns the same turn from its latest event on, including its open tool calls. */
export async function fromLatestEvent(connection: AcpConnection, { runId }: LiveTurn): Promise<LiveTurn> {
  const { store, agent } = await connection.deps();
  const events = await agent.runs.reads.toolEventsOf([runId]);
  const run = await store.find("runs", { id: runId });
  const open = new Map<string, number>();
  for (const { type, data, runSeq } of events) {
    const callId = String(data["tool_call_id"]);
    if (type === "tool.started") open.set(callId, runSeq);
    else open.delete(callId);
  }
  return { runId, after: Math.min(run?.last_seq ?? 0, ...[...open.values()].map((seq) => seq - 1)) };
}

/**
 * Reports the turn until it ends or the session is closed. Also asks the client for approvals, where the first answer of
 * any client counts; other questions go only to the client that started the turn.
 */
export async function watchTurn(
  connection: AcpConnection,
  session: AcpSession,
  { runId, after }: LiveTurn,
): Promise<void> {
  const deps = await connection.deps();
  const { agent, store, log } = deps;
  const turn = new AcpTurn();
  turn.started(runId, (reason) => {
    agent.runs.stop(runId, reason).catch((error: unknown) => {
      log.error("cannot stop a run", { run: runId, error });
    });
  });
  const detached = new AbortController();
  const watched = { runId, cancel: () => turn.cancel(), detach: () => detached.abort() };
  session.watched?.detach();
  session.watched = watched;
  const reporter = new TurnReporter({ connection, deps, session, turn });
  const signal = AbortSignal.any([session.signal, turn.signal, detached.signal]);
  const isClosed = await closedQuestions(connection, session.id, runId);
  try {
    for await (const events of store.journal.follow({ runId }, { after, signal })) {
      await reporter.report(events.filter((event) => !isClosed(event)));
      if (signal.aborted || events.some(({ type }) => isFinalEvent(type))) break;
    }
  } finally {
    await reporter.end();
    if (session.watched === watched) session.watched = undefined;
  }
}

/** Returns a filter for questions that must not be asked: answered ones, and those that are not approvals. */
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
