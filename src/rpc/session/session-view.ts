/** Sessions as hosts see them. */
import type {
  LiveSession as LiveView,
  LiveStatus,
  OpenRequest,
  SessionInfo,
  SessionState,
} from "../../../generated/gateway/types/types.gen.ts";
import { settingsOf, type SessionSettings } from "../../agent/session/session.ts";
import { Memo } from "../../base/memo.ts";
import type { QuestionRow, SessionRow } from "../../store/schema/tables.ts";
import { branchOf } from "./folder.ts";
import { openRequest } from "../events/question-payload.ts";
import type { RpcDeps } from "../deps.ts";
import { runningTurn } from "../../agent/run/run.ts";
import { modelOf, type Known } from "./session-model.ts";
import { savedSession, type SessionPlace } from "./address.ts";
import { sessionUsage } from "./session-usage.ts";
import { countMessages, readMessages, type MessagePage } from "./transcript.ts";
import { turnIdOf } from "../events/turn-id.ts";
import { turnSoFar } from "../events/turn-so-far.ts";

/** The session as it is now; undefined when it is neither saved nor open here. */
export async function sessionInfo(
  deps: RpcDeps,
  id: string,
  owner: string,
): Promise<SessionInfo | undefined> {
  const row = await savedSession(deps, id, owner);
  const live = deps.agent.live.find(id, owner);
  return row || live ? describeInfo(deps, { row, seed: live?.seed }) : undefined;
}

export async function describeInfo(deps: RpcDeps, known: Known): Promise<SessionInfo> {
  const { settings, switches } = deps.agent.deps;
  const chosen = chosenOf(known);
  const { model, provider } = modelOf(deps, known);
  const cwd = cwdOf(deps, known);
  const [{ skills, branch }, usage] = await Promise.all([lookAround(deps, cwd), sessionUsage(deps, known)]);
  const servers = deps.mcp.status();
  const effort = chosen.reasoningEffort ?? settings.reasoningEffort;
  return {
    model,
    provider,
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    yolo: chosen.yolo === true || switches.yolo || settings.policyMode === "yolo",
    running: isBusy(known.row),
    tools: toolNames(deps),
    skills: skills.length === 0 ? {} : { skills: [...skills] },
    cwd,
    ...(branch === undefined ? {} : { branch }),
    title: titleOf(known),
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
/** All who follow a session ask at the end of its turn. */
const FRESH_MS = 500;
const folders = new WeakMap<RpcDeps["skills"], Memo<Surroundings>>();

/** What the folder of a session offers, as it was at most {@link FRESH_MS} ago. */
function lookAround({ skills, clock }: RpcDeps, cwd: string): Promise<Surroundings> {
  const memo = folders.get(skills) ?? new Memo(MAX_FOLDERS);
  folders.set(skills, memo);
  return memo.get(cwd, String(Math.floor(clock.now() / FRESH_MS)), async () => {
    const [found, branch] = await Promise.all([skills.list(cwd), branchOf(cwd)]);
    return { skills: found.skills.map(({ name }) => name), branch };
  });
}

export async function describeState(deps: RpcDeps, place: SessionPlace): Promise<SessionState> {
  const known = { row: place.row, seed: place.live.seed };
  const isRunning = isBusy(place.row);
  const [open, running, usage] = await Promise.all([
    openQuestions(deps, place.id),
    isRunning ? runningTurn(deps.store, place.id) : undefined,
    sessionUsage(deps, known),
  ]);
  return {
    session_id: place.id,
    status: statusOf(place.row, open.length > 0),
    running: isRunning,
    ...(running ? { turn_id: turnIdOf(running.runId) } : {}),
    ...modelOf(deps, known),
    cwd: cwdOf(deps, known),
    title: titleOf(known),
    created_at: (place.row?.created_at ?? place.live.openedAtMs) / 1000,
    last_active: Math.max(place.row?.updated_at ?? 0, place.live.lastActiveAtMs) / 1000,
    queue_length: place.row?.queued ?? 0,
    pending_requests: open.length,
    usage,
  };
}

export interface LiveViewOptions {
  readonly omitMessages: boolean;
  readonly attached: { readonly latestSeq: number; readonly replayed: number; readonly truncated: boolean };
  /** Whether a cursor was given. */
  readonly isReplay: boolean;
}

export async function describeLive(
  deps: RpcDeps,
  place: SessionPlace,
  options: LiveViewOptions,
): Promise<LiveView> {
  const { id, live } = place;
  const row = await savedSession(deps, id, place.owner);
  const known = { row, seed: live.seed };
  const { latestSeq, replayed, truncated } = options.attached;
  // Between the two the session may have gone on: what came behind latestSeq is told by events.
  const hasTurn = isBusy(row) || (row !== undefined && row.last_seq > latestSeq);
  const soFar = hasTurn ? await turnSoFar(deps.store, { sessionId: id, upTo: latestSeq }) : undefined;
  const [info, open, count, { messages }] = await Promise.all([
    describeInfo(deps, known),
    openQuestions(deps, id),
    countMessages(deps.store, id),
    options.omitMessages ? NO_MESSAGES : readMessages(deps.store, id, { before: soFar?.firstSeq }),
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
    open_requests: open.map((ask): OpenRequest => openRequest(ask)),
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

export function isBusy(row: SessionRow | undefined): boolean {
  return row !== undefined && row.lease_owner !== null;
}

export function titleOf({ row, seed }: Known): string {
  return row?.title ?? seed?.title ?? "";
}

export function cwdOf(deps: RpcDeps, { row, seed }: Known): string {
  return row?.cwd ?? (row ? undefined : seed?.cwd) ?? deps.agent.deps.settings.workspace;
}

function chosenOf({ row, seed }: Known): SessionSettings {
  return row ? settingsOf(row) : (seed?.settings ?? {});
}

function toolNames({ agent }: RpcDeps): Record<string, string[]> {
  const names: Record<string, string[]> = {};
  for (const { name, toolset } of agent.deps.tools()) (names[toolset] ??= []).push(name);
  return names;
}
