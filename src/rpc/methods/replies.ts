/** Methods that answer questions of the agent. All settle the same stored question. */
import type { AskChoice } from "../../../generated/http/client/types.gen.ts";
import {
  toApprovalRequest,
  type QuestionKind,
  type QuestionContent,
  type QuestionReplies,
} from "../../agent/question/question.ts";
import { ServiceError } from "../../base/errors.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import { turnIdOf } from "../events/payloads.ts";
import { answerNext, narrowed, openApprovals, settleAll } from "../events/questions.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { callerSession } from "../session/session.ts";

type Names =
  | "clarify.respond"
  | "sudo.respond"
  | "secret.respond"
  | "approval.respond"
  | "approval.pending"
  | "request.answer";

export const replyMethods: RpcGroup<Names, RpcContext> = {
  "clarify.respond": async ({ params, ctx, hold }) => {
    const row = await openQuestion(ctx, { ...wantedBy(params), kind: "clarify" });
    const progress = answerNext(ctx.peer, row, params.answer);
    if ("reply" in progress) return settle(ctx, row, progress.reply);
    const { remaining, next } = progress;
    // The next question follows the answer to this call.
    hold(row.session_id);
    const { session_id, run_id } = row;
    const turn_id = turnIdOf(run_id);
    ctx.peer.event({
      type: "clarify.request",
      session_id,
      turn_id,
      ts: ctx.deps.clock.now(),
      payload: next,
    });
    return { status: "ok", remaining };
  },

  "sudo.respond": async ({ params, ctx }) => {
    const row = await openQuestion(ctx, { ...wantedBy(params), kind: "sudo" }, "orExpired");
    return row.status === "expired" ? TOO_LATE : settle(ctx, row, { password: params.password });
  },

  "secret.respond": async ({ params, ctx }) => {
    const row = await openQuestion(ctx, { ...wantedBy(params), kind: "secret" }, "orExpired");
    return row.status === "expired" ? TOO_LATE : settle(ctx, row, { value: params.value });
  },

  "approval.respond": async ({ params, ctx }) => {
    const { session_id: sessionId, choice, all, request_id: id } = params;
    await callerSession(ctx, sessionId);
    const { owner } = ctx.peer.identity;
    const settleOne = async (row: QuestionRow) => {
      await settle(ctx, row, { choice: narrowed(choice, toApprovalRequest(row).choices) });
      return { resolved: 1 };
    };
    if (all) return { resolved: await settleAll(ctx.deps, { sessionId, owner, choice }) };
    if (id !== undefined) return settleOne(await openQuestion(ctx, { id, kind: "approval", sessionId }));
    const [oldest] = await openApprovals(ctx.deps, sessionId);
    return oldest ? settleOne(oldest) : { resolved: 0 };
  },

  "approval.pending": async ({ params, ctx }) => {
    await callerSession(ctx, params.session_id);
    return { approvals: (await openApprovals(ctx.deps, params.session_id)).map(toApprovalRequest) };
  },

  "request.answer": async ({ params, ctx }) => {
    const row = await openQuestion(ctx, { id: params.id, sessionId: params.session_id });
    const reply = replyOf(row, params.result);
    await settle(ctx, row, reply);
    if ("choice" in reply && params.result["all"] === true) {
      const { session_id: sessionId, owner } = row;
      await settleAll(ctx.deps, { sessionId, owner, choice: reply.choice });
    }
    return { status: "ok" };
  },
};

function wantedBy(params: { readonly request_id: string; readonly session_id?: string }) {
  return { id: params.request_id, sessionId: params.session_id };
}

interface Wanted {
  readonly id: string;
  readonly kind?: QuestionKind;
  readonly sessionId: string | undefined;
}

const TOO_LATE = { status: "expired" } as const;

/** Finds an open question of the caller. ServiceError `ask_not_found`. */
async function openQuestion(
  { deps, peer }: RpcContext,
  { id, kind, sessionId }: Wanted,
  allowed?: "orExpired",
): Promise<QuestionRow> {
  const row = await deps.store.find("questions", { id });
  const isWanted =
    row?.owner === peer.identity.owner &&
    (row.status === "open" || (allowed === "orExpired" && row.status === "expired")) &&
    (kind === undefined || row.kind === kind) &&
    (sessionId === undefined || row.session_id === sessionId);
  if (isWanted) return row;
  const shown = JSON.stringify(id.slice(0, MAX_SHOWN));
  throw new ServiceError(
    "ask_not_found",
    `No ${kind ?? "question"} request ${shown} is pending. It may already be answered or closed.`,
    { param: "request_id" },
  );
}

const MAX_SHOWN = 64;

/**
 * Answers a question. ServiceError `bad_value` for an answer that does not fit, `ask_not_pending` when another
 * came first.
 */
async function settle(
  { deps, peer }: RpcContext,
  row: QuestionRow,
  reply: QuestionReplies[QuestionKind],
): Promise<{ status: "ok" }> {
  try {
    await deps.agent.deps.questions.answer(row.id, { owner: peer.identity.owner, by: "rpc", ...reply });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid_request") throw error;
    throw notFitting(error, "choice" in reply);
  }
  return { status: "ok" };
}

function notFitting(cause: ServiceError, isChoice: boolean): ServiceError {
  const { message, param = "" } = cause;
  if (isChoice) return new ServiceError("bad_value", message, { param, cause });
  return new ServiceError("invalid_params", message, {
    details: { issues: [{ path: param, message }] },
    cause,
  });
}

/** Reads an answer for this kind of question. ServiceError `bad_value`. */
function replyOf(row: QuestionRow, result: Readonly<Record<string, unknown>>): QuestionReplies[QuestionKind] {
  switch (row.kind as QuestionKind) {
    case "approval":
      return { choice: choiceAt(result, toApprovalRequest(row).choices) };
    case "clarify":
      return areTexts(result["answers"])
        ? { answers: withoutNulls(result["answers"]) }
        : { answers: firstAnswer(row, textAt(result, "answer")) };
    case "sudo":
      return { password: textAt(result, "value", "password") };
    case "secret":
      return { value: textAt(result, "value") };
  }
}

/** A single text answers the first question; the others are skipped. */
function firstAnswer(row: QuestionRow, answer: string): Record<string, string> {
  const { questions } = JSON.parse(row.question) as QuestionContent["clarify"];
  return Object.fromEntries(questions.map(({ id }, at) => [id, at === 0 ? answer : ""]));
}

function choiceAt(result: Readonly<Record<string, unknown>>, offered: readonly AskChoice[]): AskChoice {
  const choice = textAt(result, "choice");
  if (isChoice(choice)) return narrowed(choice, offered);
  throw new ServiceError("bad_value", `result.choice must be one of: ${CHOICES.join(", ")}.`, {
    param: "result",
  });
}

const CHOICES: readonly AskChoice[] = ["once", "session", "always", "deny"];
const isChoice = (text: string): text is AskChoice => CHOICES.some((each) => each === text);

function withoutNulls(answers: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(answers).map(([id, answer]) => [id, answer ?? ""]));
}

function textAt(result: Readonly<Record<string, unknown>>, ...names: readonly string[]): string {
  const found = names.map((name) => result[name]).find((value) => typeof value === "string");
  if (typeof found === "string") return found;
  throw new ServiceError("bad_value", `result.${names[0] ?? ""} must be a string.`, { param: "result" });
}

function areTexts(value: unknown): value is Readonly<Record<string, string | null>> {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((each) => typeof each === "string" || each === null)
  );
}
