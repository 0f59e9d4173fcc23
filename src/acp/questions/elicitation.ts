/** Questions of the agent as forms of the protocol, and what people filled in. Pure. */
import type { ElicitationPropertySchema, ElicitationSchema } from "@agentclientprotocol/sdk/unstable";
import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import { MAX_REPLY_CHARACTERS } from "../../agent/question/question.ts";

/** What all questions together are, before the form. */
export function formMessage(questions: readonly ClarifyQuestion[]): string {
  const [first] = questions;
  return questions.length === 1 && first ? first.question : `${questions.length} questions`;
}

/**
 * A field for each question, none of which has to be filled in; one with choices has a second field for words of one's
 * own, which always are an answer.
 */
export function formSchema(questions: readonly ClarifyQuestion[]): ElicitationSchema {
  const isOnly = questions.length === 1;
  const properties = questions.flatMap((question) => {
    // The only question stands above the form.
    const title = isOnly ? "Answer" : question.question;
    if (!question.choices?.length) return [[question.id, { type: "string", title }] as const];
    const own = { type: "string", title: "Or in your own words" } as const;
    return [[question.id, choiceField(question, title)] as const, [ownField(question), own] as const];
  });
  return { type: "object", properties: Object.fromEntries(properties), required: [] };
}

/** What was filled in, by the id of the question; empty for one that was skipped. Several choices stand on lines. */
export function formAnswers(
  questions: readonly ClarifyQuestion[],
  content: Readonly<Record<string, unknown>> | null | undefined,
): Record<string, string> {
  const answers = questions.map((question) => {
    const chosen = content?.[question.id];
    const own = question.choices?.length ? content?.[ownField(question)] : undefined;
    const parts = [...(Array.isArray(chosen) ? chosen : [chosen]), own];
    return [
      question.id,
      parts.map(textOf).filter(Boolean).join("\n").slice(0, MAX_REPLY_CHARACTERS),
    ] as const;
  });
  return Object.fromEntries(answers);
}

function choiceField(
  { choices, multi_select: isMulti }: ClarifyQuestion,
  title: string,
): ElicitationPropertySchema {
  const labels = [...(choices ?? [])];
  return isMulti
    ? { type: "array", title, items: { type: "string", enum: labels } }
    : { type: "string", title, enum: labels };
}

const ownField = ({ id }: ClarifyQuestion): string => `${id}_own`;

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value).trim()
    : "";
}
