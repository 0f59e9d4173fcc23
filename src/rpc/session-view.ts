/** Sessions as hosts see them. */
import type {
  GatewayUsage,
  Inflight,
  LiveSession as LiveView,
  LiveStatus,
  OpenRequest,
  SessionInfo,
  SessionState,
} from "../../generated/gateway/types/types.gen.ts";
import { formatModel } from "../agent/model.ts";
import { settingsOf, type SessionSettings } from "../agent/session.ts";
import type { AskRow, SessionRow } from "../store/tables.ts";
import { branchOf } from "./folder.ts";
import { openRequest } from "./question-payload.ts";
import type { RpcRoom } from "./room.ts";
import { savedSession, type SessionPlace } from "./session-place.ts";
import { inflightOf, readMessages } from "./transcript.ts";
import { turnIdOf } from "./turn-id.ts";
import { usageOf } from "./turn-payload.ts";

/** The session as it is now; undefined when it is neither saved nor open here. */
export async function sessionInfo(
  room: RpcRoom,
  id: string,
  owner: string,
): Promise<SessionInfo | undefined> {
  const row = await savedSession(room, id, owner);
  const live = room.agent.live.find(id, owner);
  return row || live ? describeInfo(room, { row, seed: live?.seed }) : undefined;
}

/** What holds for a session, saved or not. */
interface Known {
  readonly row: SessionRow | undefined;
  readonly seed: SessionPlace["live"]["seed"] | undefined;
}

export async function describeInfo(room: RpcRoom, known: Known): Promise<SessionInfo> {
  const { parts } = room.agent;
  const chosen = chosenOf(known);
  const { model, provider } = modelOf(room, known);
  const cwd = cwdOf(room, known);
  const [{ skills }, branch] = await Promise.all([room.skills.list(cwd), branchOf(cwd)]);
  const servers = room.mcp.status();
  const effort = chosen.reasoningEffort ?? parts.settings.reasoningEffort;
  return {
    model,
    provider,
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    yolo: chosen.yolo === true || parts.switches.yolo,
    running: isBusy(known.row),
    tools: toolNames(room),
    skills: skills.length === 0 ? {} : { skills: skills.map(({ name }) => name) },
    cwd,
    ...(branch === undefined ? {} : { branch }),
    title: titleOf(known),
    version: room.version,
    usage: sessionUsage(room, known),
    ...(servers.length === 0 ? {} : { mcp_servers: servers.map((server) => ({ ...server })) }),
  };
}

/** Figures over all turns so far; zero before the first. */
export function sessionUsage(room: RpcRoom, known: Known): GatewayUsage {
  const ref = modelRef(room, known);
  const usage = known.row ? room.agent.sessions.usage(known.row) : undefined;
  return { ...usageOf(usage, formatModel(ref)), context_max: room.agent.parts.models.contextTokensOf(ref) };
}

export async function describeState(room: RpcRoom, place: SessionPlace): Promise<SessionState> {
  const known = { row: place.row, seed: place.live.seed };
  const open = await openAsks(room, place.id);
  const runId = room.agent.turns.runningIn(place.id);
  return {
    session_id: place.id,
    status: statusOf(place.row, open),
    running: isBusy(place.row),
    ...(runId === undefined ? {} : { turn_id: turnIdOf(runId) }),
    ...modelOf(room, known),
    cwd: cwdOf(room, known),
    title: titleOf(known),
    created_at: (place.row?.created_at ?? place.live.openedAtMs) / 1000,
    last_active: Math.max(place.row?.updated_at ?? 0, place.live.lastActiveAtMs) / 1000,
    queue_length: place.row?.queued ?? 0,
    pending_requests: open.length,
    usage: sessionUsage(room, known),
  };
}

export interface LiveViewOptions {
  readonly omitMessages: boolean;
  readonly attached: { readonly latestSeq: number; readonly replayed: number; readonly truncated: boolean };
  /** Whether a cursor was given. */
  readonly isReplay: boolean;
}

export async function describeLive(
  room: RpcRoom,
  place: SessionPlace,
  options: LiveViewOptions,
): Promise<LiveView> {
  const { id, live } = place;
  const row = await savedSession(room, id, place.owner);
  const known = { row, seed: live.seed };
  const [info, open, messages, inflight] = await Promise.all([
    describeInfo(room, known),
    openAsks(room, id),
    options.omitMessages ? [] : readMessages(room.store, id).then((page) => page.messages),
    isBusy(row) ? inflightOf(room.store, id) : undefined,
  ]);
  const { latestSeq, replayed, truncated } = options.attached;
  return {
    session_id: id,
    stored_session_id: id,
    session_key: id,
    message_count: row?.last_message ?? 0,
    messages: [...messages],
    ...(options.omitMessages ? { messages_omitted: true } : {}),
    info,
    running: info.running,
    started_at: (row?.created_at ?? live.openedAtMs) / 1000,
    status: statusOf(row, open),
    ...(inflight ? { inflight: inflight satisfies Inflight } : {}),
    open_requests: open.map((ask): OpenRequest => openRequest(ask)),
    latest_seq: latestSeq,
    epoch: room.store.epoch,
    ...(options.isReplay ? { replayed, truncated } : {}),
  };
}

export function statusOf(row: SessionRow | undefined, open: readonly AskRow[]): LiveStatus {
  if (open.length > 0) return "waiting";
  return isBusy(row) ? "working" : "idle";
}

export function openAsks(room: RpcRoom, sessionId: string): Promise<readonly AskRow[]> {
  return room.agent.parts.asks.open({ sessionId });
}

export function isBusy(row: SessionRow | undefined): boolean {
  return row !== undefined && row.lease_owner !== null;
}

export function titleOf({ row, seed }: Known): string {
  return row?.title ?? seed?.title ?? "";
}

export function cwdOf(room: RpcRoom, { row, seed }: Known): string {
  return row?.cwd ?? (row ? undefined : seed?.cwd) ?? room.agent.parts.settings.workspace;
}

export function modelOf(room: RpcRoom, known: Known): { readonly model: string; readonly provider: string } {
  const ref = modelRef(room, known);
  return { model: ref.id, provider: ref.provider };
}

function modelRef({ agent }: RpcRoom, { row, seed }: Known) {
  const { models } = agent.parts;
  const name = row ? row.model : seed?.model;
  return (name === null || name === undefined ? undefined : models.resolve(name)) ?? models.default;
}

function chosenOf({ row, seed }: Known): SessionSettings {
  return row ? settingsOf(row) : (seed?.settings ?? {});
}

function toolNames({ agent }: RpcRoom): Record<string, string[]> {
  const names: Record<string, string[]> = {};
  for (const { name, toolset } of agent.parts.tools()) (names[toolset] ??= []).push(name);
  return names;
}
