/** Sessions become open to the client here, and are closed. */
import { settingsOf } from "../../agent/session/session.ts";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { withoutLinks } from "./folder.ts";
import { checkResources, attachToSession, type ResourceParams } from "./attach.ts";
import type { AcpDeps } from "../deps.ts";
import { AcpSession, type AcpSessionSeed } from "./session.ts";
import { watchSession } from "./watch.ts";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { announceCommands } from "../prompt/commands.ts";
import { sessionOptions, type OpenResponse } from "./options.ts";
import { watchTurn, type LiveTurn } from "../prompt/live-turn.ts";
import { sendUsage } from "../prompt/turn-reporter.ts";
import { createSessionId } from "../../base/ids.ts";

/** A session that the client can name. One that nobody prompted yet need not be saved. */
interface ExistingSession {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly row: SessionRow | undefined;
}

/** RequestError -32002 for a session that is neither saved nor open here, for another owner's too. */
export async function findSession(connection: AcpConnection, id: string): Promise<ExistingSession> {
  const { store, agent, owner } = await connection.deps();
  const row = await store.find("sessions", { id });
  const open = connection.find(id);
  if (row ? row.owner !== owner : !open || open.isSaved) throw sessionNotFound(id);
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
  { id, seed, row }: ExistingSession,
  params: ResourceParams,
  { signal }: { readonly signal: AbortSignal },
): Promise<AcpSession> {
  const resources = await checkResources(params);
  const deps = await connection.deps();
  const cwd = row ? await resolveFolder(deps, row, resources.folder.given) : resources.folder.given;
  const folder =
    cwd === resources.folder.given ? resources.folder : { given: cwd, real: await withoutLinks(cwd) };
  const session = await findOrBegin(connection, { id, seed: { ...seed, cwd } });
  session.moveTo(cwd);
  session.isSaved ||= row !== undefined;
  try {
    await attachToSession(connection, session, { ...resources, folder, signal });
    if (await isDeleted(connection, session)) throw sessionNotFound(id);
  } catch (error) {
    await closeSession(connection, session);
    throw error;
  }
  return session;
}

async function findOrBegin(
  connection: AcpConnection,
  { id, seed }: Pick<ExistingSession, "id" | "seed">,
): Promise<AcpSession> {
  const { agent, owner } = await connection.deps();
  // Nothing is waited for between this and the opening: of two requests at once one begins it.
  const existing = connection.find(id);
  if (existing) return existing;
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
async function resolveFolder({ agent, owner }: AcpDeps, row: SessionRow, cwd: string): Promise<string> {
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
  await within(clock, CLOSE_MS, session.settled());
  await within(clock, CLOSE_MS, session.released());
}

/** Waits for `work`, but not longer than that. */
async function within(clock: Clock, ms: number, work: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<void>();
  const cancel = clock.after(ms, late.resolve);
  await Promise.race([work, late.promise]).finally(cancel);
}

/**
 * Clients take an answer without anything in it for a session that is missing. RequestError -32002 for one that was closed
 * meanwhile, -32800 when the client does not want it any more.
 */
export async function openResponse(
  connection: AcpConnection,
  session: AcpSession,
  signal: AbortSignal,
): Promise<OpenResponse> {
  const answer = await sessionOptions(connection, session);
  if (session.signal.aborted) throw sessionNotFound(session.id);
  if (signal.aborted) throw RequestError.requestCancelled();
  return answer;
}

/** When `work` fails, which the client then hears, the session is not left open for nobody. */
export async function closeOnFailure<T>(
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
type AfterOpen = (connection: AcpConnection, session: AcpSession) => void | Promise<void>;

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
  const announcements: readonly AfterOpen[] = live
    ? [...AFTER_OPEN, () => watchTurn(connection, session, live)]
    : AFTER_OPEN;
  connection.afterAnswer(requestId, () => {
    for (const announcement of announcements) void announce(connection, session, announcement);
  });
}

/** A client can do without what could not be told. */
async function announce(
  connection: AcpConnection,
  session: AcpSession,
  announcement: AfterOpen,
): Promise<void> {
  try {
    if (!session.signal.aborted) await announcement(connection, session);
  } catch (error) {
    const { log } = await connection.deps();
    log.warn("a client was not told of its session", { session: session.id, error });
  }
}

interface ForkCall {
  readonly params: ResourceParams;
  /** Aborts when the client does not want the copy any more. */
  readonly signal: AbortSignal;
}

interface Forked {
  readonly session: AcpSession;
  readonly response: OpenResponse;
}

/**
 * Opens a copy of a session: what was said in it up to its last complete message, its model, effort and mode, and
 * nobody's leave. One in which nothing was said is copied all the same: the client gets an empty session like it.
 */
export async function forkSession(
  connection: AcpConnection,
  parent: ExistingSession,
  { params, signal }: ForkCall,
): Promise<Forked> {
  // What cannot be opened is not copied.
  await checkResources(params);
  const { agent, clock, owner } = await connection.deps();
  const row = await branch(connection, parent);
  const { yolo: _, todos: __, ...settings } = parent.seed.settings ?? {};
  const seed = { ...parent.seed, source: "acp", settings };
  const id = row?.id ?? createSessionId(clock.now());
  try {
    const session = await openSession(connection, { id, seed, row }, params, { signal });
    const response = await closeOnFailure(connection, session, () =>
      openResponse(connection, session, signal),
    );
    return { session, response };
  } catch (error) {
    if (row) await agent.sessions.delete(id, owner);
    throw error;
  }
}

/** Undefined: there is nothing to copy. */
async function branch(
  connection: AcpConnection,
  { id, row }: ExistingSession,
): Promise<SessionRow | undefined> {
  const { agent, owner } = await connection.deps();
  if (!row) return undefined;
  try {
    return await agent.sessions.branch(id, owner, { source: "acp" });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "nothing_to_branch") return undefined;
    throw error;
  }
}
