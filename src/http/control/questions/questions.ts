import type { Question, QuestionAnswer } from "../../../../generated/http/client/types.gen.ts";
import {
  listQuestions as readQuestions,
  statusNow,
  toApprovalRequest,
  type QuestionContent,
  type QuestionKind,
  type QuestionReplies,
} from "../../../agent/question/question.ts";
import { nameOfId } from "../../../agent/session/session.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import type { QuestionRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import { whileWaiting, type WaitEnd } from "../../edge/answer.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import type { RunSubscribers } from "../../runs/read.ts";
import { eventCursor } from "../feed.ts";
import { idCursor, listBody, ownerFilter, sessionFilter, timeWindow } from "../page.ts";
import { actOnce, replayedHeader } from "../write.ts";

/** GET /v1/questions: the open ones of all runs, or those of other statuses. */
export async function listQuestions(
  { query, ctx }: HttpRequest<"listQuestions", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listQuestions">> {
  const { limit, status = ["open"], kind, run_id: runId, session_id: session } = query;
  const after = idCursor(query.after, ID_PREFIX);
  // A session that does not exist has no questions.
  const sessionId =
    session === undefined ? undefined : ((await sessionFilter(session, ctx, deps)) ?? session);
  const select = () =>
    readQuestions(deps.store, {
      ...ownerFilter(ctx),
      statuses: status,
      count: limit + 1,
      nowMs: deps.clock.now(),
      ...timeWindow(query),
      ...(after === undefined ? {} : { after }),
      ...(kind === undefined ? {} : { kinds: kind }),
      ...(runId === undefined ? {} : { runId }),
      ...(sessionId === undefined ? {} : { sessionId }),
    });
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  let rows = await select();
  if (await settle(rows, deps)) rows = await select();
  const shown = await showQuestions(rows, deps);
  const show = (row: QuestionRow) => shown.get(row.id) as Question;
  return { status: 200, headers, body: listBody(rows, limit, { positionOf: ({ id }) => id, show }) };
}

const ID_PREFIX = "ask_";

/** Closes the questions of dead processes. Resolves to false if nothing changed. */
function settle(rows: readonly QuestionRow[], { agent }: HttpDeps): Promise<boolean> {
  const open = rows.filter(({ status }) => status === "open");
  return agent.settle([...new Set(open.map(({ session_id: id }) => id))]);
}

/** GET /v1/questions/{question_id}. With `wait`, answers when the question is closed. */
export async function getQuestion(
  { path, query, ctx, raw }: HttpRequest<"getQuestion", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"getQuestion">> {
  let row = await findQuestion(path.question_id, ctx, deps);
  if (await settle([row], deps)) row = await findQuestion(row.id, ctx, deps);
  const { wait = 0 } = query;
  if (wait > 0 && statusNow(row, deps.clock.now()) === "open") {
    const release = subscribers.enter(row.run_id);
    await closed(row, deps, { waitMs: wait * 1000, client: raw.signal }).finally(release);
    row = await findQuestion(row.id, ctx, deps);
  }
  return { status: 200, body: await showQuestion(row, deps) };
}

/** Resolves when the question is closed, at the timeout, or when the client disconnects. */
function closed({ id, run_id: runId }: QuestionRow, { store, clock }: HttpDeps, until: WaitEnd) {
  return whileWaiting(clock, until, async (signal) => {
    for await (const group of store.journal.follow({ runId }, { after: 0, signal })) {
      const isClosed = ({ type, data }: (typeof group)[number]) =>
        data["request_id"] === id && /\.(?:responded|expired)$/.test(type);
      if (group.some(isClosed)) return;
    }
  });
}

/** POST /v1/questions/{question_id}/answer */
export async function answerQuestion(
  { path, headers, body, ctx }: HttpRequest<"answerQuestion", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"answerQuestion">> {
  const row = await findQuestion(path.question_id, ctx, deps);
  const kind = row.kind as QuestionKind;
  // The hash of a password could be guessed.
  const isHidden = kind === "sudo" || kind === "secret";
  const once = {
    ctx,
    key: headers["idempotency-key"],
    operation: "answerQuestion",
    content: isHidden ? [row.id] : [row.id, body],
  };
  const { isReplayed } = await actOnce<{ readonly id: string }>(once, deps, async (record) => {
    const reply = toReply(kind, body);
    const by = `http:${ctx.identity.name}`;
    const done = { id: row.id };
    const alsoRecord = (tx: Parameters<typeof record>[0]) => record(tx, done);
    await deps.questions
      .answer(row.id, { owner: row.owner, by, ...reply }, alsoRecord)
      .catch(async (error: unknown) => {
        throw await translate(error, row.id, deps);
      });
    return done;
  });
  const answered = await findQuestion(row.id, ctx, deps);
  return {
    status: 200,
    headers: replayedHeader(isReplayed),
    body: await showQuestion(answered, deps),
  };
}

type AnswerBody = HttpRequest<"answerQuestion", HttpContext>["body"];

const FIELD = { approval: "choice", clarify: "answers", sudo: "password", secret: "value" } as const;

/** Returns what the body answers. ServiceError `invalid_answer`. */
function toReply(kind: QuestionKind, body: AnswerBody): QuestionReplies[QuestionKind] {
  const { reason, decline, ...fields } = body;
  const given = [...Object.keys(fields), ...(decline === undefined ? [] : ["decline"])];
  const field = FIELD[kind];
  if (given.length !== 1 || (given[0] !== field && decline !== true)) {
    const what = `This question is a ${kind}: send exactly one of ${field} and decline: true.`;
    throw new ServiceError("invalid_answer", what, { param: given.find((name) => name !== field) ?? field });
  }
  if (reason !== undefined && kind !== "approval") {
    throw new ServiceError("invalid_answer", `reason does not answer a ${kind}.`, { param: "reason" });
  }
  if (decline === true) return { ...DECLINED[kind], ...(reason === undefined ? {} : { reason }) };
  switch (kind) {
    case "approval":
      return { choice: fields.choice ?? "deny", ...(reason === undefined ? {} : { reason }) };
    case "clarify":
      return { answers: answersOf(fields.answers ?? {}) };
    case "sudo":
      return { password: fields.password ?? "" };
    case "secret":
      return { value: fields.value ?? "" };
  }
}

const DECLINED: { readonly [K in QuestionKind]: QuestionReplies[K] } = {
  approval: { choice: "deny" },
  clarify: { answers: {} },
  sudo: { password: "" },
  secret: { value: "" },
};

function answersOf(answers: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(answers).map(([id, answer]) => {
      const list: readonly unknown[] = Array.isArray(answer) ? answer : [answer];
      if (list.every((each) => typeof each === "string")) return [id, list.join("\n")];
      const param = `answers.${id}`;
      throw new ServiceError("invalid_answer", `${param} must be text or a list of texts.`, { param });
    }),
  );
}

/** Returns the error of this API for one of the question service. */
async function translate(error: unknown, id: string, { store, clock }: HttpDeps): Promise<unknown> {
  if (!(error instanceof ServiceError)) return error;
  const { code, message, param } = error;
  if (code === "invalid_request") {
    return new ServiceError("invalid_answer", message, param === undefined ? {} : { param });
  }
  if (code === "ask_not_found") return questionNotFound(id);
  if (code !== "ask_not_pending") return error;
  const row = await store.find("questions", { id });
  if (!row) return questionNotFound(id);
  const status = statusNow(row, clock.now());
  const details = {
    status,
    answered_by: row.answered_by,
    answered_at: seconds(row.answered_at),
    ...(status === "open" ? { reason: "asked_by_another_process" } : {}),
  };
  return new ServiceError("question_not_pending", message, { details });
}

/** Returns a question of the caller's owner. ServiceError `question_not_found`. */
async function findQuestion(
  id: string,
  { identity }: HttpContext,
  { store }: HttpDeps,
): Promise<QuestionRow> {
  const row = await store.find("questions", { id });
  if (row && (identity.allOwners || row.owner === identity.owner)) return row;
  throw questionNotFound(id);
}

function questionNotFound(id: string): ServiceError {
  return new ServiceError("question_not_found", `Question ${JSON.stringify(id)} does not exist.`);
}

async function showQuestion(row: QuestionRow, deps: HttpDeps): Promise<Question> {
  return (await showQuestions([row], deps)).get(row.id) as Question;
}

/** Returns the questions as they are sent, by id. */
async function showQuestions(
  rows: readonly QuestionRow[],
  { agent, clock }: HttpDeps,
): Promise<ReadonlyMap<string, Question>> {
  const sessions = await agent.sessions.reads.byId([...new Set(rows.map((row) => row.session_id))]);
  const nowMs = clock.now();
  return new Map(
    rows.map((row) => {
      const source = sessions.get(row.session_id)?.source ?? null;
      return [row.id, toQuestion(row, { source, status: statusNow(row, nowMs) })];
    }),
  );
}

function toQuestion(row: QuestionRow, now: Pick<Question, "source" | "status">): Question {
  const content = JSON.parse(row.question) as Partial<QuestionContent["clarify"]>;
  return {
    object: "agent.question",
    id: row.id,
    owner: row.owner,
    kind: row.kind as QuestionKind,
    status: now.status,
    run_id: row.run_id,
    session_id: nameOfId(row.session_id),
    source: now.source,
    tool_call_id: row.call_id,
    approval: row.kind === "approval" ? toApprovalRequest(row) : null,
    questions: row.kind === "clarify" ? [...(content.questions ?? [])] : null,
    prompt: promptOf(row),
    answer: answerOf(row),
    answered_by: row.answered_by,
    created_at: row.created_at / 1000,
    expires_at: seconds(row.expires_at),
    answered_at: seconds(row.answered_at),
  };
}

function promptOf({ kind, question }: QuestionRow): string | null {
  if (kind === "sudo") return redact((JSON.parse(question) as QuestionContent["sudo"]).command);
  if (kind !== "secret") return null;
  const { prompt, env_var: variable } = JSON.parse(question) as QuestionContent["secret"];
  return redact(`${prompt} (${variable})`);
}

function answerOf({ answer }: QuestionRow): QuestionAnswer | null {
  if (answer === null) return null;
  const { choice = null, reason = null, answers = null } = JSON.parse(answer) as Partial<QuestionAnswer>;
  return { choice, reason, answers };
}

const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1000);
