/** What every answer that opens a session says of it, and what is told behind it. */
import type { NewSessionResponse } from "@agentclientprotocol/sdk/unstable";
import { announceCommands } from "./commands.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

/** What a client can choose in a session. `models`: as clients read them that know no options. */
export interface OpenedAnswer {
  readonly modes?: NonNullable<NewSessionResponse["modes"]>;
  readonly configOptions: NonNullable<NewSessionResponse["configOptions"]>;
  readonly models?: unknown;
}

/** Clients take an answer without anything in it for a session that is missing. */
export async function openedAnswer(_connection: AcpConnection, _session: AcpSession): Promise<OpenedAnswer> {
  return { configOptions: [] };
}

/** Told of each session once the answer that opened it is on its way: what a client needs besides it. */
export type AfterOpen = (connection: AcpConnection, session: AcpSession) => void | Promise<void>;

const AFTER_OPEN: readonly AfterOpen[] = [announceCommands];

/** Has {@link AFTER_OPEN} run behind the answer to `requestId`. */
export function afterOpen(
  connection: AcpConnection,
  session: AcpSession,
  requestId: string | number | null,
): void {
  connection.afterAnswer(requestId, () => {
    for (const tell of AFTER_OPEN) void telling(connection, session, tell);
  });
}

/** A client can do without what could not be told. */
async function telling(connection: AcpConnection, session: AcpSession, tell: AfterOpen): Promise<void> {
  try {
    if (!session.signal.aborted) await tell(connection, session);
  } catch (error) {
    const { log } = await connection.room();
    log.warn("a client was not told of its session", { session: session.id, error });
  }
}
