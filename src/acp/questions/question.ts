import type { ToolCallUpdate } from "@agentclientprotocol/sdk/unstable";
import type { QuestionKind, QuestionReplies } from "../../agent/question/question.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

/** A call as it was told last. */
export type ReportedCall = Pick<ToolCallUpdate, "title" | "kind" | "content" | "rawInput" | "locations">;

/** A question of the agent on its way to the client. */
export interface PutQuestion {
  readonly id: string;
  readonly kind: QuestionKind;
  /** Of the event that asks. */
  readonly data: JournalEvent["data"];
  readonly sessionId: string;
  /** Of the call that waits, as the client knows it. */
  readonly toolCallId: string;
  /** What the client was told of that call; undefined when nothing. */
  readonly told: ReportedCall | undefined;
  /** Aborts when an answer matters no more: the turn is cancelled, or somebody else answered. */
  readonly signal: AbortSignal;
}

/** What came of a question that was put to the client. */
export type Answered =
  /** `by`: the user, or agentd because the user cannot be asked. */
  | { readonly type: "reply"; readonly reply: QuestionReplies[QuestionKind]; readonly by: "acp" | "agentd" }
  /** The user called the whole turn off. */
  | { readonly type: "cancel" }
  /** The user was asked in the conversation, and the next prompt is the answer: the turn ends. The model reads `reply`. */
  | { readonly type: "later"; readonly reply: QuestionReplies[QuestionKind] }
  /** It stays open: somebody else may answer, or its time ends it. */
  | { readonly type: "open" };

/** Resolves when all that came in the same bytes as an answer was heard: a cancel behind it counts. */
export function macrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
