import { ServiceError } from "../../base/errors.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import { toApprovalRequest, type QuestionKind, type AskQuestions, type QuestionReplies } from "./question.ts";

/** Most characters of a typed answer, password or secret. */
export const MAX_REPLY_CHARACTERS = 65_536;

/** Most characters of what somebody says with an approval or a denial. */
const MAX_REASON_CHARACTERS = 1024;

const FIELD = { approval: "choice", clarify: "answers", sudo: "password", secret: "value" } as const;

/** Throws ServiceError `invalid_request` when `reply` does not answer the question in `row`; names the field. */
export function checkReply(row: QuestionRow, reply: QuestionReplies[QuestionKind]): void {
  const field = FIELD[row.kind as QuestionKind];
  if (!(field in reply)) throw invalid(field, `is required: the question ${row.id} is a ${row.kind}`);
  const allowed = field === "choice" ? [field, "reason"] : [field];
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
  const { questions } = JSON.parse(row.question) as AskQuestions["clarify"];
  for (const [id, answer] of Object.entries(answers)) {
    if (!questions.some((question) => question.id === id)) {
      throw invalid("answers", `has ${JSON.stringify(id)}, which is no question of this request`);
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
