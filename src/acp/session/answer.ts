/** What every answer that opens a session says of it, and what is told behind it. */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { announceCommands } from "../prompt/commands.ts";
import { sessionOptions, type OpenedAnswer } from "../settings/config-options.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { watchTurn, type LiveTurn } from "../prompt/live-turn.ts";
import { closeSession } from "./open.ts";
import type { AcpSession } from "./session.ts";
import { sendUsage } from "../prompt/usage.ts";

/**
 * Clients take an answer without anything in it for a session that is missing. RequestError -32002 for one that was closed
 * meanwhile, -32800 when the client does not want it any more.
 */
export async function openedAnswer(
  connection: AcpConnection,
  session: AcpSession,
  signal: AbortSignal,
): Promise<OpenedAnswer> {
  const answer = await sessionOptions(connection, session);
  if (session.signal.aborted) throw sessionNotFound(session.id);
  if (signal.aborted) throw RequestError.requestCancelled();
  return answer;
}

/** When `work` fails, which the client then hears, the session is not left open for nobody. */
export async function orClosed<T>(
  connection: AcpConnection,
  session: AcpSession,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await closeSession(connection, session);
    throw error;
  }
}

/** Told of each session once the answer that opened it is on its way: what a client needs besides it. */
export type AfterOpen = (connection: AcpConnection, session: AcpSession) => void | Promise<void>;

const AFTER_OPEN: readonly AfterOpen[] = [announceCommands, sendUsage];

interface OpeningCall {
  readonly requestId: string | number | null;
  /** The turn at work in the session, told of from there on. */
  readonly live?: LiveTurn | undefined;
}

/** Has {@link AFTER_OPEN} run behind the answer to the request, and the turn at work told. */
export function afterOpen(
  connection: AcpConnection,
  session: AcpSession,
  { requestId, live }: OpeningCall,
): void {
  const tells: readonly AfterOpen[] = live
    ? [...AFTER_OPEN, () => watchTurn(connection, session, live)]
    : AFTER_OPEN;
  connection.afterAnswer(requestId, () => {
    for (const tell of tells) void telling(connection, session, tell);
  });
}

/** A client can do without what could not be told. */
async function telling(connection: AcpConnection, session: AcpSession, tell: AfterOpen): Promise<void> {
  try {
    if (!session.signal.aborted) await tell(connection, session);
  } catch (error) {
    const { log } = await connection.deps();
    log.warn("a client was not told of its session", { session: session.id, error });
  }
}
