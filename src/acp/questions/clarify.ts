import { shorten } from "../../base/text.ts";
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk/unstable";
import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import { clientQuirks } from "../wire/client-quirks.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { formAnswers, formMessage, formSchema } from "./elicitation.ts";
import { noteNoPermissions } from "./permission.ts";
import { macrotask, type Answered, type PutQuestion } from "./question.ts";
import { sendText } from "./question-report.ts";
import { textContent } from "../tools/tool-text.ts";

/** More choices than that do not fit where clients show them. */
const MAX_CHOICES = 6;
const MAX_TITLE_CHARACTERS = 160;

/**
 * Asks the client's user what the agent wants to know: with a form where the client has forms, else by choices where
 * there are few, else in the conversation.
 */
export async function askClarify(connection: AcpConnection, question: PutQuestion): Promise<Answered> {
  const questions = question.data["questions"] as readonly ClarifyQuestion[];
  const quirks = clientQuirks(connection);
  if (connection.offers.forms && !quirks.hasNoForms) {
    const answered = await askByForm(connection, question, questions);
    if (answered) return answered;
  }
  if (!quirks.hasNoPermissions && questions.every(isShort)) {
    const answered = await askByChoices(connection, question, questions);
    if (answered) return answered;
  }
  return askInConversation(connection, question, questions);
}

/** Undefined when the client could not show it. */
async function askByForm(
  connection: AcpConnection,
  { sessionId, toolCallId, signal }: PutQuestion,
  questions: readonly ClarifyQuestion[],
): Promise<Answered | undefined> {
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
    clientQuirks(connection).isSilent = false;
    // Who declines or closes the form leaves it to the agent; the turn goes on.
    const content = response.action === "accept" ? (response.content as Filled) : undefined;
    return { type: "reply", reply: { answers: formAnswers(questions, content) }, by: "acp" };
  } catch {
    await macrotask();
    if (signal.aborted) return { type: "open" };
    clientQuirks(connection).hasNoForms = true;
    return undefined;
  }
}

type Filled = Readonly<Record<string, unknown>> | null | undefined;

/** One after the other. Undefined when the client could not show them. */
async function askByChoices(
  connection: AcpConnection,
  question: PutQuestion,
  questions: readonly ClarifyQuestion[],
): Promise<Answered | undefined> {
  const answers: Record<string, string> = {};
  for (const each of questions) {
    try {
      const { outcome } = await connection.client.request(
        "session/request_permission",
        choicesRequest(question, each),
        { cancellationSignal: question.signal, stopWaitingOnCancel: true },
      );
      clientQuirks(connection).isSilent = false;
      if (outcome.outcome === "cancelled") return { type: "cancel" };
      const { optionId } = outcome as { readonly optionId: unknown };
      const chosen = each.choices?.find((_, index) => choiceId(index) === optionId);
      answers[each.id] = chosen ?? "";
    } catch {
      await macrotask();
      if (question.signal.aborted) return { type: "open" };
      noteNoPermissions(connection, question);
      return undefined;
    }
  }
  return { type: "reply", reply: { answers }, by: "acp" };
}

function choicesRequest(
  { sessionId, toolCallId }: PutQuestion,
  question: ClarifyQuestion,
): RequestPermissionRequest {
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
  { id, sessionId }: PutQuestion,
  questions: readonly ClarifyQuestion[],
): Answered {
  const text = questions.map(inWords).join("\n\n");
  sendText(connection, sessionId, { messageId: `question_${id}`, text });
  const answers = Object.fromEntries(questions.map((question) => [question.id, ASKED]));
  return { type: "later", reply: { answers } };
}

const ASKED = "(asked in the conversation: the user's next message is the answer)";

function inWords({ question, choices }: ClarifyQuestion): string {
  return [question, ...(choices ?? []).map((choice) => `- ${choice}`)].join("\n");
}
