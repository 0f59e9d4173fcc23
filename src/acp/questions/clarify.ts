import { shorten } from "../../base/text.ts";
import type {
  RequestPermissionRequest,
  ElicitationPropertySchema,
  ElicitationSchema,
} from "@agentclientprotocol/sdk/unstable";
import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { QuestionResult, ClientQuestion } from "./question.ts";
import { macrotask, sendText } from "../wire/updates.ts";
import { textContent } from "../tools/content.ts";
import { disablePermissions } from "./permission.ts";
import { MAX_REPLY_CHARACTERS } from "../../agent/question/question.ts";

/** More choices do not fit into a permission request. */
const MAX_CHOICES = 6;
const MAX_TITLE_CHARACTERS = 160;

/**
 * Asks the user the agent's questions: in a form if the client supports forms, otherwise as choices if they are few,
 * otherwise in the conversation.
 */
export async function askClarify(
  connection: AcpConnection,
  question: ClientQuestion,
): Promise<QuestionResult> {
  const questions = question.data["questions"] as readonly ClarifyQuestion[];
  const quirks = connection.quirks;
  if (question.sentCall?.kind === "switch_mode") return askForPlan(connection, question, questions);
  if (connection.features.forms && !quirks.hasNoForms) {
    const result = await askByForm(connection, question, questions);
    if (result) return result;
  }
  if (!quirks.hasNoPermissions && questions.every(isShort)) {
    const result = await askByChoices(connection, question, questions);
    if (result) return result;
  }
  return askInConversation(connection, question, questions);
}

/** Returns undefined if the client cannot show the form. */
async function askByForm(
  connection: AcpConnection,
  { sessionId, toolCallId, signal }: ClientQuestion,
  questions: readonly ClarifyQuestion[],
): Promise<QuestionResult | undefined> {
  try {
    const form = {
      mode: "form" as const,
      message: formMessage(questions),
      requestedSchema: formSchema(questions),
    };
    const response = await connection.client.request(
      "elicitation/create",
      { sessionId, toolCallId, ...form },
      { cancellationSignal: signal, stopWaitingOnCancel: true },
    );
    connection.quirks.isSilent = false;
    // Declining or closing the form leaves the decision to the agent, and the turn continues.
    const content = response.action === "accept" ? (response.content as FormContent) : undefined;
    return { type: "reply", reply: { answers: formAnswers(questions, content) }, by: "acp" };
  } catch {
    await macrotask();
    if (signal.aborted) return { type: "open" };
    connection.quirks.hasNoForms = true;
    return undefined;
  }
}

/** Asks for the approval of a plan in the way that clients know, even if they support forms. */
async function askForPlan(
  connection: AcpConnection,
  question: ClientQuestion,
  questions: readonly ClarifyQuestion[],
): Promise<QuestionResult> {
  const result = connection.quirks.hasNoPermissions
    ? undefined
    : await askByChoices(connection, question, questions);
  return result ?? askInConversation(connection, question, questions);
}

type FormContent = Readonly<Record<string, unknown>> | null | undefined;

/** Asks the questions one by one. Returns undefined if the client cannot show them. */
async function askByChoices(
  connection: AcpConnection,
  question: ClientQuestion,
  questions: readonly ClarifyQuestion[],
): Promise<QuestionResult | undefined> {
  const answers: Record<string, string> = {};
  for (const each of questions) {
    try {
      const { outcome } = await connection.client.request(
        "session/request_permission",
        choicesRequest(question, each),
        { cancellationSignal: question.signal, stopWaitingOnCancel: true },
      );
      connection.quirks.isSilent = false;
      if (outcome.outcome === "cancelled") return { type: "cancel" };
      const { optionId } = outcome as { readonly optionId: unknown };
      const chosen = each.choices?.find((_, index) => choiceId(index) === optionId);
      answers[each.id] = chosen ?? "";
    } catch {
      await macrotask();
      if (question.signal.aborted) return { type: "open" };
      disablePermissions(connection, question);
      return undefined;
    }
  }
  return { type: "reply", reply: { answers }, by: "acp" };
}

/** The kinds of the answers to a plan: accept edits, ask before edits, keep planning. */
const PLAN_KINDS = ["allow_always", "allow_once", "reject_once"] as const;

function choicesRequest(
  { sessionId, toolCallId, sentCall }: ClientQuestion,
  question: ClarifyQuestion,
): RequestPermissionRequest {
  if (sentCall?.kind === "switch_mode") {
    const { title = "Carry out this plan?", kind } = sentCall;
    const options = (question.choices ?? []).map((name, index) => ({
      optionId: choiceId(index),
      kind: PLAN_KINDS[index] ?? "reject_once",
      name,
    }));
    const content = [textContent(question.question)];
    return { sessionId, options, toolCall: { toolCallId, title, kind, status: "pending", content } };
  }
  const choices = (question.choices ?? []).map(
    (name, index) => ({ optionId: choiceId(index), kind: "allow_once", name }) as const,
  );
  return {
    sessionId,
    toolCall: {
      toolCallId,
      title: shorten(question.question, MAX_TITLE_CHARACTERS),
      kind: "think",
      status: "pending",
      content: [textContent(question.question)],
    },
    options: [...choices, { optionId: "skip", kind: "reject_once", name: "Skip this question" }],
  };
}

const choiceId = (index: number): string => `choice_${index + 1}`;

const isShort = ({ choices, multi_select: isMulti }: ClarifyQuestion): boolean =>
  !isMulti && !!choices?.length && choices.length <= MAX_CHOICES;

function askInConversation(
  connection: AcpConnection,
  { id, sessionId }: ClientQuestion,
  questions: readonly ClarifyQuestion[],
): QuestionResult {
  const text = questions.map(toText).join("\n\n");
  sendText(connection, sessionId, { messageId: `question_${id}`, text });
  const answers = Object.fromEntries(questions.map((question) => [question.id, ASKED]));
  return { type: "reply", reply: { answers, endsTurn: true }, by: "acp" };
}

const ASKED = "(Asked in the conversation. The user's next message is the answer.)";

function toText({ question, choices }: ClarifyQuestion): string {
  return [question, ...(choices ?? []).map((choice) => `- ${choice}`)].join("\n");
}

/** Returns the message above the form. */
export function formMessage(questions: readonly ClarifyQuestion[]): string {
  const [first] = questions;
  return questions.length === 1 && first ? first.question : `${questions.length} questions`;
}

/**
 * Returns the form with an optional field for each question. A question with choices has a second field for the user's own
 * words.
 */
export function formSchema(questions: readonly ClarifyQuestion[]): ElicitationSchema {
  const isOnly = questions.length === 1;
  const properties = questions.flatMap((question) => {
    // A single question is the message above the form.
    const title = isOnly ? "Answer" : question.question;
    if (!question.choices?.length) return [[question.id, { type: "string", title }] as const];
    const own = { type: "string", title: "Or in your own words" } as const;
    return [[question.id, choiceField(question, title)] as const, [ownField(question), own] as const];
  });
  return { type: "object", properties: Object.fromEntries(properties), required: [] };
}

/** Returns the answers by question id, empty for a skipped question. Several choices are joined by line feeds. */
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
