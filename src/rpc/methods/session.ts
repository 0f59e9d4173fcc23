/** Methods about saved sessions: create, list, resume, delete. */
import type { SessionSeed, SessionSettings, LiveSession } from "../../agent/session/session.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { EFFORTS } from "../../agent/agent.ts";
import { formatModel } from "../../agent/model.ts";
import type { Message } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import { createSessionId } from "../../base/text.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcCall, RpcGroup, RpcContext, RpcDeps } from "../deps.ts";
import { chosenFolder } from "../session/files.ts";
import { savedSession, describeInfo, describeLive } from "../session/session.ts";
import { readMessages } from "../session/transcript.ts";
import { closeWithConnection, notifyChanged } from "../events/hub.ts";

type Names = "session.create" | "session.list" | "session.most_recent" | "session.resume" | "session.delete";
type CreateParams = RpcCall<"session.create", RpcContext>["params"];

export const sessionMethods: RpcGroup<Names, RpcContext> = {
  "session.create": async (call) => {
    const { params, ctx } = call;
    const { deps, peer } = ctx;
    const { owner } = peer.identity;
    const seed = await seedOf(ctx, params);
    const id = createSessionId(deps.clock.now());
    const live = deps.agent.live.open({ id, owner, seed });
    const messages = (params.messages ?? []).map(seedMessage);
    // Given messages are saved with the session. Without any, nothing is saved before the first prompt.
    const row = messages.length > 0 ? await saveNew(deps, live, messages) : undefined;
    call.hold(id);
    await peer.attach(id);
    if (params.close_on_disconnect) closeWithConnection(ctx, id);
    if (row) notifyChanged(deps, owner);
    const transcript = row ? (await readMessages(deps, id)).messages : [];
    return {
      session_id: id,
      stored_session_id: id,
      session_key: id,
      message_count: messages.length,
      messages: [...transcript],
      info: await describeInfo(deps, { row, seed }),
    };
  },

  "session.list": async ({ params, ctx: { deps, peer } }) => {
    const { limit, cursor, title, source } = params;
    const page = await deps.agent.sessions
      .list({
        owner: peer.identity.owner,
        limit,
        ...(cursor === undefined ? {} : { cursor }),
        ...(title === undefined ? {} : { title }),
        ...(source === undefined ? {} : { source }),
      })
      .catch(asBadCursor);
    const counts = await deps.agent.sessions.reads.messageCounts(page.sessions.map(({ id }) => id));
    const sessions = page.sessions.map((row) => ({
      id: row.id,
      title: row.title ?? "",
      preview: row.preview,
      started_at: row.createdAtMs / 1000,
      last_active: row.updatedAtMs / 1000,
      message_count: counts.get(row.id) ?? 0,
      source: row.source,
      ...(row.model === null ? {} : { model: row.model }),
    }));
    return { sessions, ...(page.nextCursor === undefined ? {} : { next_cursor: page.nextCursor }) };
  },

  "session.most_recent": async ({ ctx: { deps, peer } }) => {
    const { sessions } = await deps.agent.sessions.list({ owner: peer.identity.owner, limit: 1 });
    const [row] = sessions;
    if (!row) return { session_id: null };
    const { id, title, createdAtMs, source } = row;
    return { session_id: id, title: title ?? "", started_at: createdAtMs / 1000, source };
  },

  "session.resume": async (call) => {
    const { params, ctx } = call;
    const { deps, peer } = ctx;
    const { owner } = peer.identity;
    const { id, row } = await find(deps, owner, params.session_id);
    const known = deps.agent.live.find(id, owner);
    const live = known ?? deps.agent.live.open({ id, owner, seed: { source: row?.source ?? "tui" } });
    call.hold(id);
    const attached = await peer.attach(id, params.cursor ? { cursor: params.cursor } : {});
    if (params.close_on_disconnect) closeWithConnection(ctx, id);
    const view = await describeLive(
      deps,
      { id, owner, live, row },
      {
        omitMessages: params.omit_messages,
        attached,
        isReplay: params.cursor !== undefined,
      },
    );
    await peer.showOpen(id, { missingOnly: params.cursor !== undefined });
    return { ...view, resumed: id };
  },

  "session.delete": async ({ params: { session_id: id }, ctx: { deps, peer } }) => {
    const { owner } = peer.identity;
    if (id.trim() === "") throw notNamed();
    if (deps.agent.live.find(id, owner)) {
      throw new ServiceError("session_live", "The session is open. Close it first.", { param: "session_id" });
    }
    if (!(await savedSession(deps, id, owner))) throw notStored(id);
    await deps.agent.sessions.delete(id, owner).catch((error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
      if (error.code === "session_not_found") throw notStored(id);
      if (error.code !== "session_busy") throw error;
      throw new ServiceError("session_live", "The session is running a turn. Stop the turn first.");
    });
    notifyChanged(deps, owner);
    return { deleted: true };
  },
};

/** Finds a session by id, saved or open, else by its exact title. ServiceError `stored_session_not_found`. */
async function find(deps: RpcDeps, owner: string, idOrTitle: string) {
  if (idOrTitle.trim() === "") throw notNamed();
  const row = await savedSession(deps, idOrTitle, owner);
  if (row || deps.agent.live.find(idOrTitle, owner)) return { id: idOrTitle, row };
  const titled = await deps.agent.sessions.find(idOrTitle, owner).catch((error: unknown) => {
    throw error instanceof ServiceError && error.code === "session_not_found" ? notStored(idOrTitle) : error;
  });
  return { id: titled.id, row: titled };
}

/** Saves a new session. If that fails, closes it again. */
async function saveNew(deps: RpcDeps, live: LiveSession, messages: readonly Message[]): Promise<SessionRow> {
  try {
    return await saveSession(deps.store, live, messages);
  } catch (error) {
    deps.agent.live.close(live.id, live.owner);
    throw error;
  }
}

function notNamed(): ServiceError {
  return new ServiceError("session_id_required", "session_id must name a session.", { param: "session_id" });
}

function notStored(id: string): ServiceError {
  const what = `No session ${JSON.stringify(id)} is saved. List the saved sessions to find its id.`;
  return new ServiceError("stored_session_not_found", what, { param: "session_id" });
}

async function seedOf(ctx: RpcContext, params: CreateParams): Promise<SessionSeed> {
  const { deps, peer } = ctx;
  const { title, source, parent_session_id: parentId, reasoning_effort: effort } = params;
  const settings: SessionSettings | undefined =
    effort === undefined ? undefined : { reasoningEffort: effort };
  if (effort !== undefined && !EFFORTS.some((known) => known === effort)) {
    throw bad("reasoning_effort", `must be one of: ${EFFORTS.join(", ")}`);
  }
  if (parentId !== undefined) await deps.agent.sessions.get(parentId, peer.identity.owner);
  const cwd = await chosenFolder(ctx, params.cwd ?? peer.cwd);
  const model = modelNamed(deps, params);
  return {
    source,
    ...(title === undefined || title.trim() === "" ? {} : { title: deps.agent.sessions.cleanTitle(title) }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(model === undefined ? {} : { model }),
    ...(parentId === undefined ? {} : { parentId }),
    ...(settings ? { settings } : {}),
  };
}

/** Resolves the model. A provider without a model stands for its first model. */
function modelNamed(deps: RpcDeps, { model, provider }: CreateParams): string | undefined {
  if (model === undefined && provider === undefined) return undefined;
  const { models } = deps.agent.deps;
  const first = models.list().find(({ name }) => name === provider)?.models[0];
  const name = provider === undefined || model === undefined ? (model ?? first) : `${provider}:${model}`;
  const ref = name === undefined ? undefined : models.resolve(name);
  if (ref) return formatModel(ref);
  if (name === undefined)
    throw bad("provider", `${JSON.stringify(provider)} is unknown, or has no known model`);
  throw bad("model", `${JSON.stringify(name)} belongs to no configured provider`);
}

function seedMessage({
  role,
  content,
  text = content ?? "",
}: NonNullable<CreateParams["messages"]>[number]): Message {
  return role === "assistant" ? { role, parts: [{ type: "text", text }] } : { role, text };
}

function asBadCursor(error: unknown): never {
  if (error instanceof ServiceError && error.code === "invalid_cursor") {
    throw new ServiceError("bad_value", error.message, { param: "cursor", cause: error });
  }
  throw error;
}

function bad(param: string, what: string): ServiceError {
  return new ServiceError("bad_value", `${param} ${what}.`, { param });
}
