/** What the control API does with a session besides changing its settings. */
import type { Message } from "../../../agent/engine.ts";
import { attachmentsOf, checkSessionName, nameOfId } from "../../../agent/session/session.ts";
import { branchSession, createSession as create, type NewSession } from "../../../agent/session/sessions.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { isSessionId } from "../../../base/text.ts";
import type { SessionRow } from "../../../store/schema/tables.ts";
import { writeOrTry } from "../../../store/store.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { findRepeated, idempotencyOf, serialize, withClaim } from "../../prompt/submission.ts";
import { acceptRun, replayRun } from "../../runs/create.ts";
import { readSettings, sessionOf, showSession, tagOf } from "./sessions.ts";
import { actOnce, dryRunHeader, replayedHeader } from "../write.ts";

/** POST /v1/sessions */
export async function createSession(
  { query, headers, body, ctx }: HttpRequest<"createSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"createSession">> {
  const { owner } = ctx.identity;
  const made = await readNew(body, ctx, deps);
  const dryRun = query.dry_run;
  if (dryRun) {
    const row = await writeOrTry(deps.store, { dryRun }, (tx) => create(tx, made));
    return { status: 201, headers: dryRunHeader(true), body: await showSession(row, deps) };
  }
  const once = { ctx, key: headers["idempotency-key"], operation: "createSession", content: body };
  const { result, isReplayed } = await actOnce<{ readonly id: string }>(once, deps, (record) =>
    deps.store.write(async (tx) => {
      const { id } = await create(tx, made);
      await record(tx, { id });
      return { id };
    }),
  );
  return created(await deps.agent.sessions.get(result.id, owner), isReplayed, deps);
}

async function created(row: SessionRow, isReplayed: boolean, deps: HttpDeps) {
  return {
    status: 201 as const,
    headers: {
      etag: tagOf(row),
      location: `/v1/sessions/${encodeURIComponent(nameOfId(row.id))}`,
      ...replayedHeader(isReplayed),
    },
    body: await showSession(row, deps),
  };
}

/** ServiceError `invalid_session_id`, `invalid_session_key`, and those of {@link readSettings}. */
async function readNew(
  { id, session_key: key, ...settings }: HttpRequest<"createSession", HttpContext>["body"],
  ctx: HttpContext,
  deps: HttpDeps,
): Promise<NewSession> {
  if (typeof id === "string") checkSessionName("id", id, "id");
  if (typeof key === "string") checkSessionName("key", key, "session_key");
  if (typeof id === "string" && isSessionId(id)) {
    const what = "id has the form of ids that the server makes. Choose another one.";
    throw new ServiceError("invalid_session_id", what, { param: "id" });
  }
  const { title, model, reasoningEffort, cwd } = await readSettings(settings, ctx, deps);
  return {
    owner: ctx.identity.owner,
    actor: ctx.identity.name,
    ...(typeof id === "string" ? { name: id } : {}),
    ...(typeof key === "string" ? { key } : {}),
    seed: {
      source: "http",
      ...(typeof title === "string" ? { title: deps.agent.sessions.cleanTitle(title) } : {}),
      ...(typeof model === "string" ? { model } : {}),
      ...(typeof cwd === "string" ? { cwd } : {}),
      ...(typeof reasoningEffort === "string" ? { settings: { reasoningEffort } } : {}),
    },
  };
}

/** POST /v1/sessions/{session_id}/fork */
export async function forkSession(
  { path, query, headers, body, ctx }: HttpRequest<"forkSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"forkSession">> {
  const { id, owner } = await sessionOf(path.session_id, ctx, deps);
  const dryRun = query.dry_run;
  const { title, through_message: throughSeq } = body;
  const from = {
    id,
    owner,
    actor: ctx.identity.name,
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof throughSeq === "number" ? { throughSeq } : {}),
  };
  if (dryRun) {
    const row = await writeOrTry(deps.store, { dryRun }, (tx) => branchSession(tx, from));
    return { status: 201, headers: dryRunHeader(true), body: await showSession(row, deps) };
  }
  const once = { ctx, key: headers["idempotency-key"], operation: "forkSession", content: [id, body] };
  const { result, isReplayed } = await actOnce<{ readonly id: string }>(once, deps, (record) =>
    deps.store.write(async (tx) => {
      const made = await branchSession(tx, from);
      await record(tx, { id: made.id });
      return { id: made.id };
    }),
  );
  return created(await deps.agent.sessions.get(result.id, owner), isReplayed, deps);
}

/** POST /v1/sessions/{session_id}/compress: answers when the run is recorded. */
export async function compressSession(
  request: HttpRequest<"compressSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"compressSession">> {
  const { path, body, ctx } = request;
  const { id, owner } = await sessionOf(path.session_id, ctx, deps);
  const claim = idempotencyOf(`compressSession:${id}`, request);
  return serialize(deps.store, claim, async () => {
    const earlier = claim && (await findRepeated(deps.store, claim));
    const replayed = earlier === undefined ? undefined : await replayRun(earlier, request, deps, claim);
    if (replayed) return replayed;
    const prompt = {
      address: { owner, id },
      seed: { source: "http" },
      kind: "compression" as const,
      whenBusy: "reject" as const,
      apiKey: ctx.identity.name,
      input: {
        prompt: [],
        settings: {},
        answerable: false,
        ...(typeof body.focus === "string" ? { focus: body.focus } : {}),
      },
    };
    const submitted = await deps.runs.submit(claim ? withClaim(prompt, deps, claim) : prompt);
    const status = submitted.status === "queued" ? "queued" : "running";
    return acceptRun({ submitted, status, replayed: false });
  });
}

/** GET /v1/sessions/{session_id}/messages/{sequence}/attachments/{index} */
export async function getSessionAttachment(
  { path, ctx }: HttpRequest<"getSessionAttachment", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getSessionAttachment">> {
  const { sequence, index } = path;
  const { id } = await sessionOf(path.session_id, ctx, deps);
  const [row] = await deps.agent.sessions.reads.listMessages(id, {
    order: "asc",
    after: sequence - 1,
    count: 1,
  });
  const message = row?.seq === sequence ? (JSON.parse(row.content) as Message) : undefined;
  const about = message && attachmentsOf(message)[index];
  if (message?.role !== "user" || !about) {
    const what = `Message ${sequence} of the session has no attachment ${index}. List the messages to see what they have.`;
    throw new ServiceError("not_found", what);
  }
  const { data = "" } = message.attachments?.[index] ?? {};
  return { status: 200, body: { object: "agent.session.attachment", ...about, data } };
}

/** POST /v1/sessions/{session_id}/undo */
export async function undoSession(
  { path, headers, body, ctx }: HttpRequest<"undoSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"undoSession">> {
  const { id, owner } = await sessionOf(path.session_id, ctx, deps);
  const turns = body.turns ?? 1;
  const once = { ctx, key: headers["idempotency-key"], operation: "undoSession", content: [id, turns] };
  const undo = (record: Parameters<Parameters<typeof actOnce<Undone>>[2]>[0]) =>
    deps.agent.sessions.undo(id, owner, turns, { actor: ctx.identity.name, alsoRecord: record });
  const { result, isReplayed } = await actOnce<Undone>(once, deps, undo);
  const { removed, prompt } = result;
  return {
    status: 200,
    headers: replayedHeader(isReplayed),
    body: { object: "agent.session.undone", session_id: nameOfId(id), removed, prompt: redact(prompt) },
  };
}

interface Undone {
  readonly removed: number;
  readonly prompt: string;
}
