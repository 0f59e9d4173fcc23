/** What every answer that opens a session says of it, and what is told behind it. */
import { announceCommands } from "./commands.ts";
import { sessionOptions, type OpenedAnswer } from "./config-options.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

/** Clients take an answer without anything in it for a session that is missing. */
export function openedAnswer(connection: AcpConnection, session: AcpSession): Promise<OpenedAnswer> {
  return sessionOptions(connection, session);
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
