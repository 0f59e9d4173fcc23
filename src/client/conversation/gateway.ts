/** Calls of the gateway: failures, connection states, and answers to questions. */
import {
  ConnectionCutError,
  GatewayError,
  type GatewayClient,
  type GatewayEvents,
  type GatewayEventType,
  type GatewayClientEvent,
  type GatewayNotice,
} from "../gateway.ts";
import { cleanLine } from "./clean-text.ts";
import type { ChatState, ConnectionState, Question } from "./state.ts";
import type { QuestionAnswer } from "./actions.ts";

export type GatewayCall = GatewayClient["call"];

/** Returns the stable name of an error response, such as `not_live`; undefined for any other error. */
export function reasonOf(error: unknown): string | undefined {
  return error instanceof GatewayError ? error.reason : undefined;
}

/** Returns what failed and, if known, what to do next. */
export function describeFailure(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof ConnectionCutError ? "Then retry." : HINTS[reasonOf(error) ?? ""];
  return hint === undefined ? message : `${message} ${hint}`;
}

const HINTS: Readonly<Record<string, string>> = {
  session_not_found: "/sessions lists the sessions.",
  session_busy: "Wait for the turn to end, or press Ctrl-C.",
  queue_full: "Wait until the queue is shorter.",
  overloaded: "Try again in a moment.",
  session_limit: "Close another session first.",
};

/** The payload of an event type. */
export type GatewayPayload<K extends GatewayEventType> = GatewayEvents[K]["payload"];

type ConnectionUpdate = Extract<GatewayNotice, { type: "client.state" }>["payload"];

/** Returns whether the event comes from the client, not from the gateway. */
export function isNotice(event: GatewayClientEvent): event is GatewayNotice {
  return event.type.startsWith("client.");
}

export function withConnection(state: ChatState, update: ConnectionUpdate): ChatState {
  return { ...state, connection: connectionOf(update) };
}

function connectionOf({ state, attempt, message = "" }: ConnectionUpdate): ConnectionState {
  const why = cleanLine(message);
  if (state === "open") return { kind: "ready" };
  if (state === "closed") return { kind: "closed", text: why };
  const count = attempt > 1 ? ` (attempt ${attempt})` : "";
  return { kind: "reconnecting", text: `Reconnecting${count}${why === "" ? "" : `: ${why}`}` };
}

interface AnswerRequest {
  readonly sessionId: string;
  /** The gateway's id of the request. */
  readonly questionId: string;
  readonly answer: QuestionAnswer;
  /** Answers to several questions, by question id. */
  readonly answers?: Readonly<Record<string, string>> | undefined;
}

/** Sends an answer. A question that was answered elsewhere or has expired is not an error. */
export async function respond(call: GatewayCall, request: AnswerRequest): Promise<void> {
  try {
    await send(call, request);
  } catch (error) {
    if (reasonOf(error) !== "no_pending_request") throw error;
  }
}

async function send(
  call: GatewayCall,
  { sessionId, questionId, answer, answers }: AnswerRequest,
): Promise<void> {
  const ids = { session_id: sessionId, request_id: questionId };
  switch (answer.kind) {
    case "approval":
      await call("approval.respond", {
        ...ids,
        choice: answer.choice,
        ...(answer.all === true ? { all: true } : {}),
      });
      return;
    case "clarify":
      if (answers)
        await call("request.answer", { id: questionId, session_id: sessionId, result: { answers } });
      else await call("clarify.respond", { ...ids, answer: answer.answer });
      return;
    case "sudo":
      await call("sudo.respond", { ...ids, password: answer.password });
      return;
    case "secret":
      await call("secret.respond", { ...ids, value: answer.value });
  }
}

/** Returns the answer that refuses a question. */
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
