import type { ListSessionsRequest, ListSessionsResponse } from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "./connection.ts";

const PAGE = 50;

/** A page of saved sessions, newest first. ServiceError `invalid_cursor`. */
export async function listSessions(
  connection: AcpConnection,
  { cursor }: ListSessionsRequest,
): Promise<ListSessionsResponse> {
  const { agent, owner } = await connection.room();
  const { workspace } = agent.parts.settings;
  const page = await agent.sessions.list({ owner, limit: PAGE, ...(cursor ? { cursor } : {}) });
  return {
    sessions: page.sessions.map(({ id, cwd, title, updatedAtMs }) => ({
      sessionId: id,
      cwd: cwd ?? workspace,
      title,
      updatedAt: new Date(updatedAtMs).toISOString(),
    })),
    ...(page.nextCursor === undefined ? {} : { nextCursor: page.nextCursor }),
  };
}
