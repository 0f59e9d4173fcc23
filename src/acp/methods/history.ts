/** Methods about sessions that are there already. */
import { endRuns } from "../../agent/run/control.ts";
import type { AcpGroup } from "../wire/contract.ts";
import { forkSession } from "../session/fork.ts";
import { fromNow, liveTurn } from "../prompt/live-turn.ts";
import { requireProvider } from "../settings/provider.ts";
import { replaySession } from "../replay/replay-session.ts";
import { afterOpen, openedAnswer, orClosed } from "../session/answer.ts";
import { listSessions } from "../session/list.ts";
import { closeSession, knownSession, openSession } from "../session/open.ts";

type Names = "session/load" | "session/resume" | "session/list" | "session/delete" | "session/fork";

/** What runs in a session that is deleted gets so long to end. */
const END_MS = 5_000;

export const historyMethods: AcpGroup<Names> = {
  "session/load": async ({ params, requestId, signal }, connection) => {
    await requireProvider(connection);
    const known = await knownSession(connection, params.sessionId);
    const wasOpen = connection.find(known.id) !== undefined;
    const session = await openSession(connection, known, params, { signal });
    const live = await liveTurn(connection, session);
    const tell = async () => {
      await replaySession(connection, session, { signal, liveRunId: live?.runId });
      return openedAnswer(connection, session, signal);
    };
    const answer = await (wasOpen ? tell() : orClosed(connection, session, tell));
    afterOpen(connection, session, { requestId, live });
    return { ...answer };
  },

  "session/resume": async ({ params, requestId, signal }, connection) => {
    await requireProvider(connection);
    const known = await knownSession(connection, params.sessionId);
    const wasOpen = connection.find(known.id) !== undefined;
    const session = await openSession(connection, known, params, { signal });
    const live = await liveTurn(connection, session);
    const say = () => openedAnswer(connection, session, signal);
    const answer = await (wasOpen ? say() : orClosed(connection, session, say));
    afterOpen(connection, session, { requestId, live: live && (await fromNow(connection, live)) });
    return { ...answer };
  },

  "session/list": ({ params }, connection) => listSessions(connection, params),

  "session/delete": async ({ params }, connection) => {
    const deps = await connection.deps();
    const { agent, owner } = deps;
    const session = connection.find(params.sessionId);
    if (session) await closeSession(connection, session);
    const row = await agent.sessions.saved(params.sessionId, owner);
    if (!row) return {};
    await endRuns(agent, row.id, { reason: "The session was deleted.", timeoutMs: END_MS });
    await agent.sessions.delete(row.id, owner);
    // It may have been loaded again before it was gone.
    const reopened = connection.find(row.id);
    if (reopened) await closeSession(connection, reopened);
    return {};
  },

  "session/fork": async ({ params, requestId, signal }, connection) => {
    await requireProvider(connection);
    const parent = await knownSession(connection, params.sessionId);
    const { session, answer } = await forkSession(connection, parent, { params, signal });
    afterOpen(connection, session, { requestId });
    return { sessionId: session.id, ...answer };
  },
};
