/** Sessions become open to the client here, and are closed. */
import { waitAtMost } from "../../base/deadline.ts";
import { settingsOf } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { withoutLinks } from "./folder.ts";
import { checkResources, attachToSession, type ResourceParams } from "./attach.ts";
import type { AcpDeps } from "../deps.ts";
import { AcpSession, type AcpSessionSeed } from "./session.ts";
import { watchSession } from "./watch.ts";

/** A session that the client can name. One that nobody prompted yet need not be saved. */
export interface KnownSession {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly row: SessionRow | undefined;
}

/** RequestError -32002 for a session that is neither saved nor open here, for another owner's too. What a gone process left open in it is closed. */
export async function knownSession(connection: AcpConnection, id: string): Promise<KnownSession> {
  const { agent, owner } = await connection.deps();
  const row = await agent.sessions.saved(id, owner);
  const open = connection.find(id);
  if (!row && (!open || open.isSaved)) throw sessionNotFound(id);
  const { workspace } = agent.deps.settings;
  const seed = row ? seedOf(row, workspace) : (open?.seed ?? { source: "acp", cwd: workspace });
  return { id, seed, row };
}

function seedOf({ source, cwd, model, meta }: SessionRow, workspace: string): AcpSessionSeed {
  return {
    source,
    cwd: cwd ?? workspace,
    settings: settingsOf({ meta }),
    ...(model === null ? {} : { model }),
  };
}

/**
 * Opens a session, or goes on with one that is open, in the folder and with the servers that the client names.
 * RequestError -32602 for what cannot be worked with, -32002 for one that was deleted meanwhile, ServiceError
 * `too_many_live_sessions`. `signal` aborts when the client does not want it any more: then servers are not waited for.
 */
export async function openSession(
  connection: AcpConnection,
  { id, seed, row }: KnownSession,
  params: ResourceParams,
  { signal }: { readonly signal: AbortSignal },
): Promise<AcpSession> {
  const loan = await checkResources(params);
  const deps = await connection.deps();
  const cwd = row ? await moved(deps, row, loan.folder.given) : loan.folder.given;
  const folder = cwd === loan.folder.given ? loan.folder : { given: cwd, real: await withoutLinks(cwd) };
  const session = await findOrBegin(connection, { id, seed: { ...seed, cwd } });
  session.moveTo(cwd);
  session.isSaved ||= row !== undefined;
  try {
    await attachToSession(connection, session, { ...loan, folder, signal });
    if (await isDeleted(connection, session)) throw sessionNotFound(id);
  } catch (error) {
    await closeSession(connection, session);
    throw error;
  }
  return session;
}

async function findOrBegin(
  connection: AcpConnection,
  { id, seed }: Pick<KnownSession, "id" | "seed">,
): Promise<AcpSession> {
  const { agent, owner } = await connection.deps();
  // Nothing is waited for between this and the opening: of two requests at once one begins it.
  const known = connection.find(id);
  if (known) return known;
  const live = agent.live.open({ id, owner, seed });
  // As long as the client has it open it is no idle one.
  live.viewers++;
  const session = new AcpSession({ id, seed, openedAtMs: live.openedAtMs });
  session.onClose(() => {
    live.viewers--;
    if (live.viewers === 0) agent.live.close(id, owner);
  });
  connection.open(session);
  await watchSession(connection, session);
  return session;
}

/** The folder where the session works from now on: another one than before unless a turn is at work in it. */
async function moved({ agent, owner }: AcpDeps, row: SessionRow, cwd: string): Promise<string> {
  const before = row.cwd ?? agent.deps.settings.workspace;
  if (before === cwd || (await withoutLinks(before)) === (await withoutLinks(cwd))) return before;
  try {
    await agent.sessions.move(row.id, owner, cwd);
    return cwd;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "session_busy") return before;
    throw error;
  }
}

/**
 * For requests that go on with an open session. RequestError -32002 when somebody else deleted it: to go on would bring
 * it back without all that was said in it. It is closed behind the answer.
 */
export async function requireUndeleted(
  connection: AcpConnection,
  session: AcpSession,
  requestId: string | number | null,
): Promise<void> {
  if (!(await isDeleted(connection, session))) return;
  connection.afterAnswer(requestId, () => void closeSession(connection, session));
  throw sessionNotFound(session.id);
}

async function isDeleted(connection: AcpConnection, session: AcpSession): Promise<boolean> {
  const { store } = await connection.deps();
  const row = await store.find("sessions", { id: session.id });
  session.isSaved ||= row !== undefined;
  return session.isSaved && row === undefined;
}

/** What runs and what holds on to the session gets so long. */
const CLOSE_MS = 5_000;

/** What the session runs is cancelled, and what it holds here is given back; it stays saved. */
export async function closeSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { clock } = await connection.deps();
  connection.close(session);
  await waitAtMost(clock, CLOSE_MS, session.settled());
  await waitAtMost(clock, CLOSE_MS, session.released());
}
