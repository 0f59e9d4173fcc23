/** Opens, forks and closes sessions for the client, and checks that the agent has a usable model for them. */
import { waitAtMost } from "../../base/time.ts";
import { settingsOf } from "../../agent/session/session.ts";
import { ServiceError, toServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import { type AcpConnection, AcpSession, type AcpSessionSeed, authMethodsFor } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { withoutLinks } from "./folder.ts";
import { type ResourceParams, attachToSession, checkResources } from "./attach.ts";
import type { AcpDeps } from "../deps.ts";
import { watchSession, type OpenResponse, sessionOptions } from "./options.ts";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { announceCommands } from "../prompt/commands.ts";
import { type LiveTurn, watchTurn } from "../prompt/live-turn.ts";
import { sendUsage } from "../prompt/turn-reporter.ts";
import { createSessionId } from "../../base/text.ts";
import { type ModelCatalog, isReady, formatModel } from "../../agent/model.ts";

/** A session that the client can open. It may be unsaved if it has no prompt yet. */
interface ExistingSession {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly row: SessionRow | undefined;
}

/** Finds a saved or open session. RequestError -32002 for a missing one, or one of another owner. */
export async function findSession(connection: AcpConnection, id: string): Promise<ExistingSession> {
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
 * Opens a session, or reuses an open one, with the folders and MCP servers of the request. RequestError -32602 for invalid
 * folders or servers, -32002 for a session deleted meanwhile; ServiceError `too_many_live_sessions`. An abort of `signal`
 * ends the wait for servers.
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
  // No await between here and open(): of two concurrent requests only one opens the session.
  const existing = connection.find(id);
  if (existing) return existing;
  const live = agent.live.open({ id, owner, seed });
  // A viewer keeps the session from being closed as idle.
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

/** Returns the working folder of the session: `cwd`, or the previous one while a turn is running. */
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
 * RequestError -32002 if another client deleted the session: using it would recreate it without its messages. Closes it
 * after the response.
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

/** How long turns and cleanup of a closed session may take. */
const CLOSE_MS = 5_000;

/** Closes the session here: cancels its turns and releases its resources. It stays saved. */
export async function closeSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { clock } = await connection.deps();
  connection.close(session);
  await waitAtMost(clock, CLOSE_MS, session.settled());
  await waitAtMost(clock, CLOSE_MS, session.released());
}

/**
 * Returns the response that opens a session. RequestError -32002 if the session was closed meanwhile, -32800 if the client
 * cancelled the request.
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

/** Runs `work` and closes the session if it fails. */
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

/** Sends an update that a client needs after the response that opens a session. */
type AfterOpen = (connection: AcpConnection, session: AcpSession) => void | Promise<void>;

const AFTER_OPEN: readonly AfterOpen[] = [announceCommands, sendUsage];

interface OpeningCall {
  readonly requestId: string | number | null;
  /** The running turn of the session, to follow. */
  readonly live?: LiveTurn | undefined;
}

/** Runs {@link AFTER_OPEN} and follows the running turn after the response is sent. */
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

/** Sends one update. Logs a failure: a client works without it. */
async function announce(
  connection: AcpConnection,
  session: AcpSession,
  announcement: AfterOpen,
): Promise<void> {
  try {
    if (!session.signal.aborted) await announcement(connection, session);
  } catch (error) {
    const { log } = await connection.deps();
    log.warn("cannot send an update of an opened session", { session: session.id, error });
  }
}

interface ForkCall {
  readonly params: ResourceParams;
  /** Aborts when the client cancels the request. */
  readonly signal: AbortSignal;
}

interface Forked {
  readonly session: AcpSession;
  readonly response: OpenResponse;
}

/**
 * Opens a copy of a session: its messages up to the last complete one, its model, effort and mode, but no grants. The copy
 * of an empty session is an empty session with the same settings.
 */
export async function forkSession(
  connection: AcpConnection,
  parent: ExistingSession,
  { params: request, signal }: ForkCall,
): Promise<Forked> {
  // A fork without a folder works in that of its parent. See wire.ts.
  const params = request.cwd === "" ? { ...request, cwd: parent.seed.cwd } : request;
  // Check before copying: a copy that cannot be opened would remain.
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

/** Copies the session. Returns undefined if it is empty. */
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

/**
 * Returns the loaded agent if its default model is usable; the built-in demo model always is. Otherwise reads the
 * configuration again. RequestError -32000 says what is missing, what to do and how to authenticate.
 */
export async function requireProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.deps());
  return problemOf(deps) === undefined ? deps : refreshProvider(connection);
}

/** Reads the configuration again and returns the agent. Fails like {@link requireProvider}. */
export async function refreshProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.refresh());
  const problem = problemOf(deps);
  if (problem !== undefined) throw authRequired(connection, problem);
  return deps;
}

function problemOf({ providerProblem, agent }: AcpDeps): string | undefined {
  return providerProblem ?? missingProvider(agent.deps.models);
}

/**
 * Reads the configuration again and checks it. Fails like {@link requireProvider}, and while the key is the one that
 * the provider rejected: the next prompt would fail again.
 */
export async function authenticate(connection: AcpConnection): Promise<void> {
  const deps = await refreshProvider(connection);
  const { rejection } = connection;
  if (rejection?.deps !== deps) return;
  const hint = (await deps.isCurrent())
    ? "Correct the key with `agentd setup`, then authenticate again."
    : "The configuration has changed since then. Restart the agent in your editor to use it.";
  throw authRequired(connection, `${rejection.message} ${hint}`);
}

/** Reports an invalid configuration as a missing provider; rethrows other errors. */
async function loaded(connection: AcpConnection, load: () => Promise<AcpDeps>): Promise<AcpDeps> {
  try {
    return await load();
  } catch (error) {
    const { code, message } = toServiceError(error);
    throw code === "invalid_config" ? authRequired(connection, message) : error;
  }
}

/** Returns why the default model is unusable and what to do, or undefined. */
export function missingProvider(models: ModelCatalog): string | undefined {
  const { default: model } = models;
  const provider = models.list().find(({ isDefault }) => isDefault);
  if (provider && isReady(provider)) return undefined;
  const setup = provider ? `\`agentd setup --provider ${provider.type}\`` : "`agentd setup`";
  return `${formatModel(model)} is not usable: its provider has no API key. Run ${setup}, or add the key to the \`.env\` file in the agentd home.`;
}

function authRequired(connection: AcpConnection, message: string): RequestError {
  return new RequestError(AUTH_REQUIRED, message, { authMethods: authMethodsFor(connection) });
}

const AUTH_REQUIRED = -32_000;
