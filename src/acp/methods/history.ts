/** Methods about sessions that are saved. */
import type { AcpGroup } from "../contract.ts";
import { replaySession } from "../replay.ts";
import { listSessions } from "../session-list.ts";
import { requireProvider } from "../provider.ts";
import { afterOpen, openedAnswer } from "../session-answer.ts";
import { closeSession, openSession, savedSession } from "../session-open.ts";

type Names = "session/load" | "session/resume" | "session/list" | "session/delete" | "session/fork";

export const historyMethods: AcpGroup<Names> = {
  "session/load": async ({ params, requestId }, connection) => {
    await requireProvider(connection);
    const { id, source } = await savedSession(connection, params.sessionId);
    const session = await openSession(connection, { id, seed: { source, cwd: params.cwd } }, params);
    await replaySession(connection, session);
    const answer = await openedAnswer(connection, session);
    afterOpen(connection, session, requestId);
    return { ...answer };
  },

  "session/resume": async ({ params, requestId }, connection) => {
    await requireProvider(connection);
    const { id, source } = await savedSession(connection, params.sessionId);
    const session = await openSession(connection, { id, seed: { source, cwd: params.cwd } }, params);
    const answer = await openedAnswer(connection, session);
    afterOpen(connection, session, requestId);
    return { ...answer };
  },

  "session/list": async ({ params }, connection) => listSessions(connection, params),

  "session/delete": async ({ params }, connection) => {
    const { agent, store, owner } = await connection.room();
    const session = connection.find(params.sessionId);
    if (session) await closeSession(connection, session);
    const row = await store.find("sessions", { id: params.sessionId });
    if (row?.owner === owner) await agent.sessions.delete(row.id, owner);
    return {};
  },

  "session/fork": async ({ params, requestId }, connection) => {
    const { agent, owner } = await requireProvider(connection);
    const parent = await savedSession(connection, params.sessionId);
    const { id } = await agent.sessions.branch(parent.id, owner, { source: "acp" });
    const session = await openSession(connection, { id, seed: { source: "acp", cwd: params.cwd } }, params);
    const answer = await openedAnswer(connection, session);
    afterOpen(connection, session, requestId);
    return { sessionId: id, ...answer };
  },
};
