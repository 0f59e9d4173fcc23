import type { RunUsage, Session, SessionMessage } from "../../../../generated/http/client/types.gen.ts";
import { formatModel } from "../../../agent/model.ts";
import type { Message } from "../../../agent/engine.ts";
import {
  nameOfId,
  sessionNotFound,
  settingsOf,
  attachmentsOf,
  textOf,
  cursorBehind,
} from "../../../agent/session/session.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact, redactValue } from "../../../base/observe.ts";
import type { MessageRow, SessionRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { chooseFolder } from "../folder.ts";
import { findNamedSession, listBody, numberCursor, ownerFilter, timeWindow } from "../page.ts";
import { checkVersion, dryRunHeader, etagOf, isUnchanged } from "../write.ts";

/** GET /v1/sessions: the newest change first. */
export async function listSessions(
  { query, ctx }: HttpRequest<"listSessions", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listSessions">> {
  const { limit, after, q, source, status, title, cwd, internal, stateless } = query;
  const select = () =>
    deps.agent.sessions.listRows({
      ...ownerFilter(ctx),
      limit,
      internal,
      stateless,
      cursorParam: "after",
      ...timeWindow(query),
      ...(after === undefined ? {} : { cursor: after }),
      ...(q === undefined ? {} : { text: q }),
      ...(title === undefined ? {} : { title }),
      ...(cwd === undefined ? {} : { folders: [cwd] }),
      ...(source === undefined ? {} : { sources: source }),
      ...(status === undefined ? {} : { statuses: status }),
    });
  const cursor = await eventCursor(deps);
  let page = await select();
  const busy = page.rows.filter(({ lease_owner: holder }) => holder !== null);
  // Runs of dead processes have ended now.
  if (await deps.agent.settle(busy.map(({ id }) => id))) page = await select();
  const shown = await showSessions(page.rows, deps);
  const body = listBody(page.rows, limit, {
    positionOf: (row) => cursorBehind(row.updated_at, row.id),
    show: (row) => shown.get(row.id) as Session,
  });
  const headers = { "x-agent-event-cursor": cursor };
  return { status: 200, headers, body: { ...body, has_more: page.hasMore } };
}

/** GET /v1/sessions/{session_id} */
export async function getSession(
  { path, headers, ctx }: HttpRequest<"getSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getSession">> {
  const row = await sessionOf(path.session_id, ctx, deps);
  const etag = tagOf(row);
  if (isUnchanged(headers["if-none-match"], etag)) return { status: 304, headers: { etag } };
  return { status: 200, headers: { etag }, body: await showSession(row, deps) };
}

/** PATCH /v1/sessions/{session_id}: a merge patch, all of it or nothing. */
export async function updateSession(
  { path, query, headers, body, ctx }: HttpRequest<"updateSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"updateSession">> {
  const { id, owner } = await sessionOf(path.session_id, ctx, deps);
  const change = await readSettings(body, ctx, deps);
  const dryRun = query.dry_run;
  const check = (row: SessionRow) => checkVersion(headers["if-match"], tagOf(row));
  const row = await deps.agent.sessions.change(id, owner, change, {
    check,
    dryRun,
    actor: ctx.identity.name,
  });
  return {
    status: 200,
    headers: { etag: tagOf(row), ...dryRunHeader(dryRun) },
    body: await showSession(row, deps),
  };
}

/** DELETE /v1/sessions/{session_id}. With `force`, stops its runs first. */
export async function deleteSession(
  { path, query, headers, ctx }: HttpRequest<"deleteSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteSession">> {
  const row = await sessionOf(path.session_id, ctx, deps);
  const check = (current: SessionRow) => checkVersion(headers["if-match"], tagOf(current));
  check(row);
  if (query.force) {
    const { name: by } = ctx.identity;
    const reason = `the session is deleted by http:${by}`;
    const ended = await deps.agent.endRuns(row.id, { reason, by, timeoutMs: STOP_MS });
    if (!ended) throw new ServiceError("session_busy", "A run of the session does not end. Try again.");
  }
  await deps.agent.sessions.delete(row.id, row.owner, { check, actor: ctx.identity.name });
  return { status: 200, body: { id: nameOfId(row.id), object: "agent.session", deleted: true } };
}

/** How long a deletion waits for runs that it stops. */
const STOP_MS = 30_000;

/** GET /v1/sessions/{session_id}/messages */
export async function listSessionMessages(
  { path, query, ctx }: HttpRequest<"listSessionMessages", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listSessionMessages">> {
  const { limit, order, include = [] } = query;
  const after = numberCursor(query.after);
  const { id } = await sessionOf(path.session_id, ctx, deps);
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const rows = await deps.agent.sessions.reads.listMessages(id, { order, after, count: limit + 1 });
  const hasResults = include.includes("tool_results");
  const body = listBody(rows, limit, {
    positionOf: ({ seq }) => String(seq),
    show: (row) => showMessage(row, hasResults),
  });
  return { status: 200, headers, body };
}

/** Returns the session that the caller names. ServiceError `session_not_found`, as {@link findNamedSession}. */
export async function sessionOf(name: string, ctx: HttpContext, deps: HttpDeps): Promise<SessionRow> {
  const row = await findNamedSession(name, ctx, deps);
  if (!row) throw sessionNotFound(name);
  return deps.agent.sessions.get(row.id, row.owner);
}

/** Checks the settings that a client chooses for a session. ServiceError `model_not_found`, `invalid_request`, `insufficient_scope`. */
export async function readSettings(
  body: Omit<HttpRequest<"updateSession", HttpContext>["body"], "id" | "session_key">,
  { identity }: HttpContext,
  { models, settings }: HttpDeps,
): Promise<Parameters<HttpDeps["agent"]["sessions"]["change"]>[2]> {
  const { title, model, reasoning_effort: reasoningEffort, cwd } = body;
  const ref = typeof model === "string" ? models.resolve(model) : undefined;
  if (typeof model === "string" && !ref) {
    const known = models.providers.map((provider) => provider.name).join(", ");
    const what = `Unknown model ${JSON.stringify(model)}. Write it as provider:model; the providers are: ${known}.`;
    throw new ServiceError("model_not_found", what, { param: "model" });
  }
  const folder = typeof cwd === "string" ? await chooseFolder(cwd, settings.workspaceRoots, identity) : cwd;
  return {
    ...(title === undefined ? {} : { title }),
    ...(model === undefined ? {} : { model: ref ? formatModel(ref) : null }),
    ...(reasoningEffort === undefined ? {} : { reasoningEffort }),
    ...(folder === undefined ? {} : { cwd: folder }),
  };
}

/** Returns the version of what people set. Runs do not change it. */
export function tagOf(row: SessionRow): string {
  return etagOf([row.title, row.model, settingsOf(row).reasoningEffort ?? null, row.cwd]);
}

/** Returns a session as it is sent, with the use of its context. */
export async function showSession(row: SessionRow, deps: HttpDeps): Promise<Session> {
  const session = (await showSessions([row], deps)).get(row.id) as Session;
  const { models } = deps;
  const model = (row.model === null ? undefined : models.resolve(row.model)) ?? models.default;
  const { used } = await deps.agent.contextUse(row);
  const context = { used_tokens: used, limit_tokens: models.contextTokensOf(model) };
  return { ...session, context };
}

/** Returns the sessions as they are sent, by row id. */
async function showSessions(
  rows: readonly SessionRow[],
  { agent }: HttpDeps,
): Promise<ReadonlyMap<string, Session>> {
  const { reads } = agent.sessions;
  const ids = rows.map(({ id }) => id);
  const [previews, asking, active] = [
    await reads.previewsOf(ids),
    await reads.asking(ids),
    await reads.activeRuns(ids),
  ];
  return new Map(
    rows.map((row) => {
      const isBusy = row.lease_owner !== null || row.queued > 0;
      const status = asking.has(row.id) ? "waiting" : isBusy ? "running" : "idle";
      return [
        row.id,
        toSession(row, { preview: previews.get(row.id) ?? "", status, runId: active.get(row.id) }),
      ];
    }),
  );
}

function toSession(
  row: SessionRow,
  now: { readonly preview: string; readonly status: Session["status"]; readonly runId: string | undefined },
): Session {
  return {
    object: "agent.session",
    id: nameOfId(row.id),
    owner: row.owner,
    title: row.title === null ? null : redact(row.title),
    preview: redact(now.preview),
    source: row.source,
    session_key: row.session_key,
    model: row.model,
    reasoning_effort: (settingsOf(row).reasoningEffort ?? null) as Session["reasoning_effort"],
    cwd: row.cwd,
    status: now.status,
    run_id: now.runId ?? null,
    queued: row.queued,
    message_count: row.last_message,
    last_seq: row.last_seq,
    parent_id: row.parent_id === null ? null : nameOfId(row.parent_id),
    root_id: row.root_id === null ? null : nameOfId(row.root_id),
    usage: row.usage === null ? null : (JSON.parse(row.usage) as RunUsage),
    context: null,
    created_at: row.created_at / 1000,
    updated_at: row.updated_at / 1000,
  };
}

/** Returns a message as it is sent. `hasResults`: with the text of tool results. */
export function showMessage(row: MessageRow, hasResults: boolean): SessionMessage {
  const message = JSON.parse(row.content) as Message;
  const isHidden = message.role === "tool" && !hasResults;
  const tool = message.role === "tool" ? message : undefined;
  return {
    object: "agent.session.message",
    sequence: row.seq,
    role: message.role,
    text: isHidden ? null : redact(textOf(message)),
    reasoning: reasoningOf(message),
    tool_calls: toolCallsOf(message),
    tool_call_id: tool?.callId ?? null,
    tool: tool?.tool ?? null,
    status: tool?.status ?? null,
    code: tool?.code ?? null,
    duration_seconds: tool?.durationMs === undefined ? null : tool.durationMs / 1000,
    attachments: attachmentsOf(message),
    run_id: row.run_id,
    is_summary: message.role === "user" && message.origin === "summary",
    created_at: row.created_at / 1000,
  };
}

function reasoningOf(message: Message): string | null {
  if (message.role !== "assistant") return null;
  const text = message.parts.map((part) => (part.type === "reasoning" ? part.text : "")).join("");
  return text === "" ? null : redact(text);
}

function toolCallsOf(message: Message): SessionMessage["tool_calls"] {
  if (message.role !== "assistant") return [];
  return message.parts.flatMap((part) =>
    part.type === "tool_call"
      ? [{ id: part.callId, name: part.tool, arguments: JSON.stringify(redactValue(part.input)) ?? "{}" }]
      : [],
  );
}
