/** Answers to the agent's questions. Passwords and secrets go from here to the gateway and nowhere else. */
import { reasonOf, type GatewayCall } from "./gateway-call.ts";
import type { QuestionAnswer } from "./screen.ts";
import type { Question } from "./state/state.ts";

interface Given {
  readonly sessionId: string;
  /** Of the request, as the gateway calls it. */
  readonly questionId: string;
  readonly answer: QuestionAnswer;
  /** To each of several questions, by their ids. */
  readonly answers?: Readonly<Record<string, string>> | undefined;
}

/** Sends an answer. Somebody else may have answered, or nobody in time: that is no failure of this one. */
export async function respond(call: GatewayCall, given: Given): Promise<void> {
  try {
    await send(call, given);
  } catch (error) {
    if (reasonOf(error) !== "no_pending_request") throw error;
  }
}

async function send(call: GatewayCall, { sessionId, questionId, answer, answers }: Given): Promise<void> {
  const asked = { session_id: sessionId, request_id: questionId };
  switch (answer.kind) {
    case "approval":
      await call("approval.respond", {
        ...asked,
        choice: answer.choice,
        ...(answer.all === true ? { all: true } : {}),
      });
      return;
    case "clarify":
      if (answers)
        await call("request.answer", { id: questionId, session_id: sessionId, result: { answers } });
      else await call("clarify.respond", { ...asked, answer: answer.answer });
      return;
    case "sudo":
      await call("sudo.respond", { ...asked, password: answer.password });
      return;
    case "secret":
      await call("secret.respond", { ...asked, value: answer.value });
  }
}

/** What says no to a question. */
export function refusalOf({ kind }: Question): QuestionAnswer {
  switch (kind) {
    case "approval":
      return { kind, choice: "deny" };
    case "clarify":
      return { kind, answer: "" };
    case "sudo":
      return { kind, password: "" };
    case "secret":
      return { kind, value: "" };
  }
}
