import type {
  ApprovalRequest,
  AskChoice,
  ClarifyQuestion,
  FileChange,
} from "../../../generated/http/client/types.gen.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import { runEvent } from "../run/event.ts";
import { ServiceError } from "../../base/errors.ts";

/** The question of an approval, already redacted. */
export interface ApprovalQuestion {
  readonly tool: string;
  readonly kind: ApprovalRequest["kind"];
  readonly title: string;
  readonly description?: string;
  readonly command?: string;
  readonly choices: readonly AskChoice[];
  /** What an approval beyond this call covers; absent: it covers this call only. */
  readonly covers?: string;
  /** What the call would change in files, as diffs. */
  readonly changes?: readonly FileChange[];
  /** The grant that would cover the call; internal. Absent: no grant can, or it holds a secret. */
  readonly signature?: string;
}

/** Name of the server as the one that answers a question. */
export const OURSELVES = "agentd";

/** What is asked, by the kind of question. */
export interface QuestionContent {
  readonly approval: ApprovalQuestion;
  readonly clarify: { readonly questions: readonly ClarifyQuestion[] };
  /** `command` is redacted before it gets here. */
  readonly sudo: { readonly command: string };
  readonly secret: { readonly prompt: string; readonly env_var: string };
}

export type QuestionKind = keyof QuestionContent;

/** What answers a question of each kind. An empty password or value refuses; a question without an answer is skipped. */
export interface QuestionReplies {
  /** `forSession`: a denial also holds for the next calls of the same kind. */
  readonly approval: { readonly choice: AskChoice; readonly reason?: string; readonly forSession?: true };
  /** `endsTurn`: the questions were asked in the conversation, and the next prompt answers them. */
  readonly clarify: { readonly answers: Readonly<Record<string, string>>; readonly endsTurn?: true };
  readonly sudo: { readonly password: string };
  readonly secret: { readonly value: string };
}

/** A stored approval as every surface shows it. */
export function toApprovalRequest(row: QuestionRow): ApprovalRequest {
  const { signature: _, choices, changes, ...question } = JSON.parse(row.question) as ApprovalQuestion;
  return { ...question, choices: [...choices], ...(changes ? { changes: [...changes] } : {}), ...frame(row) };
}

/** The signature of the policy that a stored approval is about; undefined for other questions. */
export function signatureOf(row: QuestionRow): string | undefined {
  if (row.kind !== "approval") return undefined;
  return (JSON.parse(row.question) as ApprovalQuestion).signature;
}

/** The event of an open question; a surface that connects later shows the same. */
export function requestEvent(row: QuestionRow): NewEvent {
  const question: unknown = JSON.parse(row.question);
  switch (row.kind as QuestionKind) {
    case "approval":
      return runEvent(row.run_id, "approval.request", toApprovalRequest(row));
    case "clarify": {
      const { questions } = question as QuestionContent["clarify"];
      return runEvent(row.run_id, "clarify.request", { questions: [...questions], ...frame(row) });
    }
    case "sudo":
      return runEvent(row.run_id, "sudo.request", {
        ...(question as QuestionContent["sudo"]),
        ...frame(row),
      });
    case "secret":
      return runEvent(row.run_id, "secret.request", {
        ...(question as QuestionContent["secret"]),
        ...frame(row),
      });
  }
}

/** The event of an answer. Passwords and secrets are in no event: only whether there was one. */
export function respondedEvent(row: QuestionRow, reply: QuestionReplies[QuestionKind], by: string): NewEvent {
  const about = { request_id: row.id, by };
  if ("choice" in reply) {
    return runEvent(row.run_id, "approval.responded", {
      ...about,
      choice: reply.choice,
      ...(reply.reason === undefined ? {} : { reason: reply.reason }),
      ...(reply.forSession === true ? { for_session: true } : {}),
    });
  }
  if ("answers" in reply) {
    return runEvent(row.run_id, "clarify.responded", {
      ...about,
      answers: { ...reply.answers },
      ...(reply.endsTurn === true ? { ends_turn: true } : {}),
    });
  }
  if ("password" in reply) {
    return runEvent(row.run_id, "sudo.responded", { ...about, skipped: reply.password === "" });
  }
  const { env_var } = JSON.parse(row.question) as QuestionContent["secret"];
  return runEvent(row.run_id, "secret.responded", { ...about, env_var, skipped: reply.value === "" });
}

export function expiredEvent(row: QuestionRow, reason: "timeout" | "cancelled"): NewEvent {
  return runEvent(row.run_id, `${row.kind as QuestionKind}.expired`, { request_id: row.id, reason });
}

function frame(row: QuestionRow) {
  return {
    request_id: row.id,
    ...(row.call_id === null ? {} : { tool_call_id: row.call_id }),
    created_at: row.created_at / 1000,
    expires_at: row.expires_at === null ? null : row.expires_at / 1000,
  };
}

/** Most characters of a typed answer, password or secret. */
export const MAX_REPLY_CHARACTERS = 65_536;

/** Most characters of the message with an approval or a denial. */
const MAX_REASON_CHARACTERS = 1024;

const FIELD = { approval: "choice", clarify: "answers", sudo: "password", secret: "value" } as const;

/** The other fields of a reply. */
const MORE: Readonly<Record<(typeof FIELD)[QuestionKind], readonly string[]>> = {
  choice: ["reason", "forSession"],
  answers: ["endsTurn"],
  password: [],
  value: [],
};

/** Throws ServiceError `invalid_request` when `reply` does not answer the question in `row`; names the field. */
export function checkReply(row: QuestionRow, reply: QuestionReplies[QuestionKind]): void {
  const field = FIELD[row.kind as QuestionKind];
  if (!(field in reply)) throw invalid(field, `is required: the question ${row.id} is a ${row.kind}`);
  const allowed = [field, ...MORE[field]];
  const other = Object.keys(reply).find((key) => !allowed.includes(key));
  if (other !== undefined)
    throw invalid(other, `does not answer the question ${row.id}, which is a ${row.kind}`);
  if ("choice" in reply) {
    const offered = toApprovalRequest(row).choices;
    if (!offered.includes(reply.choice)) throw invalid(field, `must be one of: ${offered.join(", ")}`);
    if (reply.reason !== undefined && reply.reason.length > MAX_REASON_CHARACTERS) {
      throw invalid("reason", `must be at most ${MAX_REASON_CHARACTERS} characters`);
    }
  } else if ("answers" in reply) {
    checkAnswers(row, reply.answers);
  } else {
    checkText(field, "password" in reply ? reply.password : reply.value);
  }
}

function checkAnswers(row: QuestionRow, answers: Readonly<Record<string, string>>): void {
  const { questions } = JSON.parse(row.question) as QuestionContent["clarify"];
  for (const [id, answer] of Object.entries(answers)) {
    if (!questions.some((question) => question.id === id)) {
      throw invalid("answers", `has ${JSON.stringify(id)}, which is not a question of this request`);
    }
    checkText(`answers.${id}`, answer);
  }
}

function checkText(field: string, text: string): void {
  if (text.length > MAX_REPLY_CHARACTERS) {
    throw invalid(field, `has ${text.length} characters; the limit is ${MAX_REPLY_CHARACTERS}`);
  }
  // A line break would end the password early, and no `.env` file holds one.
  if ((field === "password" || field === "value") && /[\r\n\0]/.test(text)) {
    throw invalid(field, "must not contain line breaks or NUL");
  }
}

function invalid(field: string, what: string): ServiceError {
  return new ServiceError("invalid_request", `${field} ${what}.`, { param: field });
}

// Lists of questions

/** A question is open, answered, expired or cancelled. */
export type QuestionStatus = "open" | "answered" | "expired" | "cancelled";

export interface QuestionPage {
  /** Absent: of all owners. */
  readonly owner?: string;
  /** Only questions older than this one. */
  readonly after?: string;
  readonly statuses?: readonly QuestionStatus[];
  readonly kinds?: readonly QuestionKind[];
  readonly runId?: string;
  readonly sessionId?: string;
  /** Only questions asked at `fromMs` or later, and before `toMs`. */
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly count: number;
  readonly nowMs: number;
}

/** Returns a page of questions, newest first: their ids sort by time. */
export async function listQuestions(
  { read }: Pick<Store, "read">,
  page: QuestionPage,
): Promise<readonly QuestionRow[]> {
  const { owner, after, statuses, kinds, runId, sessionId, fromMs, toMs, count, nowMs } = page;
  let query = read.selectFrom("questions").selectAll();
  if (owner !== undefined) query = query.where("owner", "=", owner);
  if (after !== undefined) query = query.where("id", "<", after);
  if (kinds !== undefined) query = query.where("kind", "in", kinds);
  if (runId !== undefined) query = query.where("run_id", "=", runId);
  if (sessionId !== undefined) query = query.where("session_id", "=", sessionId);
  if (fromMs !== undefined) query = query.where("created_at", ">=", fromMs);
  if (toMs !== undefined) query = query.where("created_at", "<", toMs);
  if (statuses !== undefined) {
    const stored = statuses.flatMap((status) => (status === "expired" ? ["open", status] : [status]));
    query = query.where("status", "in", stored).where((is) => {
      const open = is("status", "=", "open");
      const over = is.and([is("expires_at", "is not", null), is("expires_at", "<=", nowMs)]);
      const wanted = {
        open: is.and([open, is.or([is("expires_at", "is", null), is("expires_at", ">", nowMs)])]),
        // The process that would expire it may be dead.
        expired: is.or([is("status", "=", "expired"), is.and([open, over])]),
        answered: is("status", "=", "answered"),
        cancelled: is("status", "=", "cancelled"),
      };
      return is.or(statuses.map((status) => wanted[status]));
    });
  }
  return query.orderBy("id", "desc").limit(count).execute();
}

/** Returns the status of a question now: an open one whose time is over has expired. */
export function statusNow({ status, expires_at: until }: QuestionRow, nowMs: number): QuestionStatus {
  const isOver = status === "open" && until !== null && until <= nowMs;
  return isOver ? "expired" : (status as QuestionStatus);
}
