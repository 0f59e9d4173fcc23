import type { ToolCallUpdate } from "@agentclientprotocol/sdk/unstable";
import type { QuestionKind, QuestionReplies } from "../../agent/question/question.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

/** A call as it was last sent to the client. */
export type ReportedCall = Pick<ToolCallUpdate, "title" | "kind" | "content" | "rawInput" | "locations">;

/** A question of the agent for the client. */
export interface ClientQuestion {
  readonly id: string;
  readonly kind: QuestionKind;
  /** The data of the event that asks. */
  readonly data: JournalEvent["data"];
  readonly sessionId: string;
  /** The client's id of the waiting call. */
  readonly toolCallId: string;
  /** The waiting call as it was sent to the client, if it was. */
  readonly sentCall: ReportedCall | undefined;
  /** Aborts when the answer no longer matters: the turn was cancelled, or another client answered. */
  readonly signal: AbortSignal;
}

/** The result of asking the client. */
export type QuestionResult =
  /** `by`: the user, or agentd if the user cannot be asked. */
  | { readonly type: "reply"; readonly reply: QuestionReplies[QuestionKind]; readonly by: "acp" | "agentd" }
  /** The user cancelled the turn. */
  | { readonly type: "cancel" }
  /** The question stays open until another client answers or it times out. */
  | { readonly type: "open" };
