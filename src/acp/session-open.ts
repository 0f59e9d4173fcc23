/** Sessions become open to the client here, and are closed. */
import type { SessionRow } from "../store/tables.ts";
import type { AcpConnection } from "./connection.ts";
import { sessionNotFound } from "./error.ts";
import { checkLoan, lendToSession, type LoanParams } from "./lend.ts";
import { AcpSession, type AcpSessionOptions } from "./session.ts";
import { watchSession } from "./watch.ts";

/** The saved session that the client names. RequestError -32002, for another owner's too. */
export async function savedSession(connection: AcpConnection, id: string): Promise<SessionRow> {
  const { store, owner } = await connection.room();
  const row = await store.find("sessions", { id });
  if (row?.owner !== owner) throw sessionNotFound(id);
  return row;
}

/** RequestError -32602 for a folder that cannot be worked in, ServiceError `too_many_live_sessions`. */
export async function openSession(
  connection: AcpConnection,
  { id, seed }: Pick<AcpSessionOptions, "id" | "seed">,
  params: LoanParams,
): Promise<AcpSession> {
  const loan = await checkLoan(params);
  const cwd = params.cwd;
  const { agent, owner } = await connection.room();
  const { openedAtMs } = agent.live.open({ id, owner, seed });
  const known = connection.find(id);
  const session = known ?? new AcpSession({ id, seed: { ...seed, cwd }, openedAtMs });
  connection.open(session);
  if (!known) await watchSession(connection, session);
  await lendToSession(connection, session, loan);
  return session;
}

/** What the session runs is cancelled, and what it holds here is given back; it stays saved. */
export async function closeSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { agent, owner } = await connection.room();
  connection.close(session.id);
  await session.released();
  agent.live.close(session.id, owner);
}
