/** Sessions of a caller, and how hosts see them. */
import { waitAtMost } from "../../base/time.ts";
import type {
  LiveSession as LiveView,
  LiveStatus,
  OpenRequest,
  SessionInfo,
  SessionState,
  GatewayUsage,
} from "../../../generated/gateway/types/types.gen.ts";
import {
  settingsOf,
  type SessionSettings,
  type SessionSeed,
  type LiveSession,
  sessionNotFound,
} from "../../agent/session/session.ts";
import type { Attachment } from "../../agent/engine.ts";
import { Memo } from "../../base/data.ts";
import type { QuestionRow, SessionRow } from "../../store/schema/tables.ts";

import { openRequest } from "../events/questions.ts";
import type { RpcDeps, RpcContext } from "../deps.ts";
import { runningTurn } from "../../agent/run/run.ts";

import { readMessages, type MessagePage, turnSoFar } from "./transcript.ts";
import { turnIdOf, usageOf } from "../events/payloads.ts";
import { type ModelRef, formatModel } from "../../agent/model.ts";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ServiceError } from "../../base/errors.ts";

/** A session as it is open here, and as it is saved. Without a prompt it may not be saved yet. */
export interface OpenSession {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession;
  readonly row: SessionRow | undefined;
}

/** Returns an open session. ServiceError `session_not_found`, and `not_live` for one that is only saved. */
export async function liveSession({ deps, peer }: RpcContext, id: string): Promise<OpenSession> {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(id, owner);
  const row = await savedSession(deps, id, owner);
  if (live) {
    deps.agent.live.touch(id);
    return { id, owner, live, row };
  }
  if (!row) throw sessionNotFound(id);
  throw new ServiceError(
    "not_live",
    `The session ${JSON.stringify(id)} is saved but not open here. Resume it.`,
    {
      details: { stored: true },
    },
  );
}

/** Returns the saved session; undefined for unsaved ones and for those of others. */
export async function savedSession(
  deps: RpcDeps,
  id: string,
  owner: string,
): Promise<SessionRow | undefined> {
  return deps.agent.sessions.saved(id, owner);
}

/** A session of the caller: open here, saved, or both. */
export interface CallerSession {
  readonly id: string;
  readonly owner: string;
  readonly live: LiveSession | undefined;
  readonly row: SessionRow | undefined;
}

/** Returns a session that is open here or saved. ServiceError `session_not_found`, including for sessions of others. */
export async function callerSession({ deps, peer }: RpcContext, id: string): Promise<CallerSession> {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(id, owner);
  const row = await savedSession(deps, id, owner);
  if (!live && !row) throw sessionNotFound(id);
  return { id, owner, live, row };
}

/** Returns the session if the call names one. */
export async function namedSession(
  ctx: RpcContext,
  id: string | undefined,
): Promise<CallerSession | undefined> {
  return id === undefined ? undefined : callerSession(ctx, id);
}

/** Returns the session as it is now; undefined when it is neither saved nor open here. */
export async function sessionInfo(
  deps: RpcDeps,
  id: string,
  owner: string,
): Promise<SessionInfo | undefined> {
  const row = await savedSession(deps, id, owner);
  const live = deps.agent.live.find(id, owner);
  return row || live ? describeInfo(deps, { row, seed: live?.seed }) : undefined;
}

export async function describeInfo(deps: RpcDeps, session: SessionRef): Promise<SessionInfo> {
  const { settings, switches } = deps.agent.deps;
  const chosen = chosenOf(session);
  const { model, provider } = modelOf(deps, session);
  const cwd = cwdOf(deps, session);
  const [{ skills, branch }, usage] = await Promise.all([
    readSurroundings(deps, cwd),
    sessionUsage(deps, session),
  ]);
  const servers = deps.mcp.status();
  const effort = chosen.reasoningEffort ?? settings.reasoningEffort;
  return {
    model,
    provider,
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    fast: false,
    service_tier: "",
    personality: "none",
    profile_name: deps.config.env["AGENTD_PROFILE"] ?? "default",
    yolo: chosen.yolo === true || switches.yolo || settings.policyMode === "yolo",
    running: isBusy(session.row),
    tools: toolNames(deps),
    skills: skills.length === 0 ? {} : { skills: [...skills] },
    cwd,
    ...(branch === undefined ? {} : { branch }),
    title: titleOf(session),
    version: deps.version,
    usage,
    ...(servers.length === 0 ? {} : { mcp_servers: servers.map((server) => ({ ...server })) }),
  };
}

interface Surroundings {
  readonly skills: readonly string[];
  readonly branch: string | undefined;
}

const MAX_FOLDERS = 64;
/** All followers of a session read this at the end of its turn. */
const FRESH_MS = 500;
const folders = new WeakMap<RpcDeps["skills"], Memo<Surroundings>>();

/** Reads the skills and the branch of a folder, at most {@link FRESH_MS} old. */
function readSurroundings({ skills, clock }: RpcDeps, cwd: string): Promise<Surroundings> {
  const memo = folders.get(skills) ?? new Memo(MAX_FOLDERS);
  folders.set(skills, memo);
  return memo.get(cwd, String(Math.floor(clock.now() / FRESH_MS)), async () => {
    const [found, branch] = await Promise.all([skills.list(cwd), branchOf(cwd)]);
    return { skills: found.skills.map(({ name }) => name), branch };
  });
}

/** Returns the git branch of a folder, if it has one. */
async function branchOf(cwd: string): Promise<string | undefined> {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const head = await readFile(join(folder, ".git", "HEAD"), "utf8").catch(() => undefined);
    if (head !== undefined) return /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
    if (dirname(folder) === folder) return undefined;
  }
}

export async function describeState(deps: RpcDeps, session: OpenSession): Promise<SessionState> {
  const ref = { row: session.row, seed: session.live.seed };
  const isRunning = isBusy(session.row);
  const [open, running, usage] = await Promise.all([
    openQuestions(deps, session.id),
    isRunning ? runningTurn(deps.store, session.id) : undefined,
    sessionUsage(deps, ref),
  ]);
  return {
    session_id: session.id,
    status: statusOf(session.row, open.length > 0),
    running: isRunning,
    ...(running ? { turn_id: turnIdOf(running.runId) } : {}),
    ...modelOf(deps, ref),
    cwd: cwdOf(deps, ref),
    title: titleOf(ref),
    created_at: (session.row?.created_at ?? session.live.openedAtMs) / 1000,
    last_active: Math.max(session.row?.updated_at ?? 0, session.live.lastActiveAtMs) / 1000,
    queue_length: session.row?.queued ?? 0,
    pending_requests: open.length,
    usage,
  };
}

export interface LiveViewOptions {
  readonly omitMessages: boolean;
  readonly attached: { readonly latestSeq: number; readonly replayed: number; readonly truncated: boolean };
  /** True when the client gave a cursor. */
  readonly isReplay: boolean;
}

export async function describeLive(
  deps: RpcDeps,
  session: OpenSession,
  options: LiveViewOptions,
): Promise<LiveView> {
  const { id, live } = session;
  const row = await savedSession(deps, id, session.owner);
  const { latestSeq, replayed, truncated } = options.attached;
  // The session may have changed since it was attached. Events report everything after latestSeq.
  const hasTurn = isBusy(row) || (row !== undefined && row.last_seq > latestSeq);
  const soFar = hasTurn ? await turnSoFar(deps, { sessionId: id, upTo: latestSeq }) : undefined;
  const [info, open, count, { messages }] = await Promise.all([
    describeInfo(deps, { row, seed: live.seed }),
    openQuestions(deps, id),
    deps.agent.sessions.reads.countMessages(id),
    options.omitMessages ? NO_MESSAGES : readMessages(deps, id, { before: soFar?.firstSeq }),
  ]);
  return {
    session_id: id,
    stored_session_id: id,
    session_key: id,
    message_count: count,
    messages: [...messages],
    ...(options.omitMessages ? { messages_omitted: true } : {}),
    info,
    running: info.running,
    started_at: (row?.created_at ?? live.openedAtMs) / 1000,
    status: statusOf(row, open.length > 0),
    ...(soFar?.inflight ? { inflight: soFar.inflight } : {}),
    open_requests: open.map((question): OpenRequest => openRequest(question)),
    latest_seq: latestSeq,
    epoch: deps.store.epoch,
    ...(options.isReplay ? { replayed, truncated } : {}),
  };
}

const NO_MESSAGES: MessagePage = { messages: [], hasMore: false };

export function statusOf(row: SessionRow | undefined, isAsking: boolean): LiveStatus {
  if (isAsking) return "waiting";
  return isBusy(row) ? "working" : "idle";
}

export function openQuestions(deps: RpcDeps, sessionId: string): Promise<readonly QuestionRow[]> {
  return deps.agent.deps.questions.open({ sessionId });
}

function isBusy(row: SessionRow | undefined): boolean {
  return row !== undefined && row.lease_owner !== null;
}

export function titleOf({ row, seed }: SessionRef): string {
  return row?.title ?? seed?.title ?? "";
}

export function cwdOf(deps: RpcDeps, { row, seed }: SessionRef): string {
  return row?.cwd ?? (row ? undefined : seed?.cwd) ?? deps.agent.deps.settings.workspace;
}

/** Returns the folder of the call's session; without one, that in which the host was started. */
export function callerCwd({ deps, peer }: RpcContext, session: CallerSession | undefined): string {
  if (session) return cwdOf(deps, { row: session.row, seed: session.live?.seed });
  return peer.cwd ?? deps.agent.deps.settings.workspace;
}

function chosenOf({ row, seed }: SessionRef): SessionSettings {
  return row ? settingsOf(row) : (seed?.settings ?? {});
}

function toolNames({ agent }: RpcDeps): Record<string, string[]> {
  const names: Record<string, string[]> = {};
  for (const { name, toolset } of agent.deps.tools()) (names[toolset] ??= []).push(name);
  return names;
}

/** A session, saved or not. */
export interface SessionRef {
  readonly row: SessionRow | undefined;
  readonly seed: SessionSeed | undefined;
}

/** Returns the model of the session's next turn. */
export function modelRef({ agent }: RpcDeps, { row, seed }: SessionRef): ModelRef {
  const { models } = agent.deps;
  const name = row ? row.model : seed?.model;
  return (name === null || name === undefined ? undefined : models.resolve(name)) ?? models.default;
}

export function modelOf(
  deps: RpcDeps,
  session: SessionRef,
): { readonly model: string; readonly provider: string } {
  const ref = modelRef(deps, session);
  return { model: ref.id, provider: ref.provider };
}

const CONTEXT_WAIT_MS = 500;

/** Returns the usage of all turns so far. */
export async function sessionUsage(deps: RpcDeps, session: SessionRef): Promise<GatewayUsage> {
  const ref = modelRef(deps, session);
  const { models } = deps.agent.deps;
  // A slow model server must not delay the session: later usage has what it reports.
  const asked = models.refreshContext(ref);
  if (asked) await waitAtMost(deps.clock, CONTEXT_WAIT_MS, asked);
  const contextMax = models.contextTokensOf(ref);
  const { row } = session;
  const spent = usageOf(row && deps.agent.sessions.usage(row), formatModel(ref));
  if (!row) return { ...spent, context_max: contextMax, compressions: 0, active_subagents: 0 };
  const [{ used, compressions }, subagents] = await Promise.all([
    deps.agent.contextUse(row),
    subagentsOf(deps, row),
  ]);
  const percent = contextMax > 0 ? Math.min(100, Math.round((used / contextMax) * 1_000) / 10) : 100;
  return {
    ...spent,
    ...(used > 0 ? { context_used: used, context_percent: percent } : {}),
    context_max: contextMax,
    compressions,
    active_subagents: subagents,
  };
}

/** Counts running sub-agents. Only a session with a running turn has any. */
async function subagentsOf({ agent }: RpcDeps, { id, owner, lease_owner }: SessionRow): Promise<number> {
  if (lease_owner === null) return 0;
  return (await agent.runs.reads.activeSubagents({ owner, rootSessionId: id })).length;
}

// Images that wait for the next prompt

/** An image that waits for the next prompt. */
export interface QueuedImage {
  /** The path as it was attached. Detaching names the image by it. */
  readonly path: string;
  readonly attachment: Attachment;
}

export const MAX_QUEUED_IMAGES = 32;
const MAX_QUEUED_BYTES = 33_554_432;
/** For messages. */
export const QUEUED_LIMIT = `${MAX_QUEUED_IMAGES} images, with ${MAX_QUEUED_BYTES} bytes in all`;

/** Queued images exist as long as the open session. */
const waiting = new WeakMap<LiveSession, QueuedImage[]>();

/** Returns the number of queued images; undefined when there are too many. */
export function queueImage(live: LiveSession, image: QueuedImage): number | undefined {
  const images = waiting.get(live) ?? [];
  if (!fitsPrompt([...images, image].map(({ attachment }) => attachment))) return undefined;
  waiting.set(live, [...images, image]);
  return images.length + 1;
}

/** Returns false when no queued image has this path. */
export function dropImage(live: LiveSession, path: string): boolean {
  const images = waiting.get(live) ?? [];
  const rest = images.filter((image) => image.path !== path);
  waiting.set(live, rest);
  return rest.length < images.length;
}

export function queuedImages(live: LiveSession): readonly QueuedImage[] {
  return waiting.get(live) ?? [];
}

/** Takes all queued images for a prompt. */
export function takeImages(live: LiveSession): readonly QueuedImage[] {
  const images = queuedImages(live);
  waiting.delete(live);
  return images;
}

/** Puts the images of a rejected prompt back, before those that came meanwhile. */
export function putBackImages(live: LiveSession, images: readonly QueuedImage[]): void {
  const all = [...images, ...queuedImages(live)];
  while (!fitsPrompt(all.map(({ attachment }) => attachment))) all.pop();
  if (images.length > 0) waiting.set(live, all);
}

/** Returns true when one prompt may have these attachments. */
export function fitsPrompt(attachments: readonly Attachment[]): boolean {
  const characters = attachments.reduce((sum, { data }) => sum + data.length, 0);
  return attachments.length <= MAX_QUEUED_IMAGES && (characters * 3) / 4 <= MAX_QUEUED_BYTES;
}
