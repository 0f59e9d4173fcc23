/**
 * What the screen of `agentd chat` shows: plain data, replaced whole on every change. All text in here is safe to print:
 * control characters and escape sequences of the model, of tools and of the gateway are taken out before it comes in.
 * Answers to questions (passwords, secrets) never come in here.
 */

export interface ChatState {
  readonly connection: ConnectionState;
  /** Absent until a session is open. */
  readonly session?: SessionSummary;
  /** Grows whenever the transcript is another one (another session, `/clear`): clear the screen and print anew. */
  readonly generation: number;
  /** Items that never change again, oldest first. Append only within a generation, but for what falls off the front. */
  readonly settled: readonly TranscriptItem[];
  /** How many settled items fell off the front of this generation: `dropped + settled.length` only grows. */
  readonly dropped: number;
  /** Items still at work, in order, behind the settled ones. */
  readonly live: readonly TranscriptItem[];
  /** The turn at work. */
  readonly turn?: TurnState;
  /** Prompts that wait behind the turn at work, next first. */
  readonly queue: readonly QueuedPrompt[];
  /** Open questions, oldest first; the first is the one to show. */
  readonly questions: readonly Question[];
  /** Keyed notices that stay until they are cleared. */
  readonly notifications: readonly Notification[];
  readonly status: StatusInfo;
  readonly composer: ComposerHints;
  readonly picker?: Picker;
  /** Ctrl-C was pressed and nothing was at work: pressed again, the program leaves. */
  readonly isLeaveArmed: boolean;
  /** Makes ids of items; of no use to the screen. */
  readonly serial: number;
}

export type ConnectionState =
  | { readonly kind: "connecting"; readonly text: string }
  | { readonly kind: "ready" }
  | { readonly kind: "reconnecting"; readonly text: string }
  /** For good: `text` says why and what to do. */
  | { readonly kind: "closed"; readonly text: string };

interface SessionSummary {
  readonly id: string;
  /** May be empty. */
  readonly title: string;
  readonly cwd: string;
  readonly branch?: string;
}

export interface TurnState {
  readonly id: string;
  /** Unix milliseconds, for a clock. */
  readonly startedAtMs: number;
  /** What goes on, one line; may be empty. */
  readonly activity: string;
  /** A message of the model ended: what it says next is another one. */
  readonly isBetweenMessages: boolean;
  /** Somebody asked for the end of it. */
  readonly isInterrupting: boolean;
}

/** Ids are unique within a generation. */
export type TranscriptItem = UserItem | AssistantItem | ReasoningItem | ToolItem | SubagentItem | NoticeItem;

export interface UserItem {
  readonly kind: "user";
  readonly id: string;
  readonly text: string;
  /** Where it came from, if it is no prompt of a person: `steer`, `cron`, `webhook`, `background`, `other`. */
  readonly origin?: string;
}

/** Markdown, as the model wrote it. */
export interface AssistantItem {
  readonly kind: "assistant";
  readonly id: string;
  readonly text: string;
  readonly status: "streaming" | "complete" | "interrupted" | "error";
}

interface ReasoningItem {
  readonly kind: "reasoning";
  readonly id: string;
  readonly text: string;
  readonly isStreaming: boolean;
}

export interface ToolItem {
  readonly kind: "tool";
  readonly id: string;
  readonly name: string;
  /** One line: the call in short, such as the command. */
  readonly context: string;
  /** `writing`: the model still writes the call. `cut`: the turn ended before the tool did. */
  readonly status: "writing" | "running" | "done" | "failed" | "cut";
  /** The last lines of live output; empty if there are none. */
  readonly progress: string;
  /** One line about the result, when it is there. */
  readonly summary?: string;
  /** The start of the result as text, at most some lines. */
  readonly output?: string;
  readonly error?: string;
  /** Unified diff. */
  readonly diff?: string;
  readonly todos?: readonly Todo[];
  readonly durationSeconds?: number;
  readonly startedAtMs: number;
}

export interface Todo {
  readonly text: string;
  readonly status: "pending" | "in_progress" | "completed" | "cancelled";
}

export interface SubagentItem {
  readonly kind: "subagent";
  readonly id: string;
  readonly goal: string;
  /** `queued`, `running`, `completed`, `failed`, `error`, `timeout`, `interrupted`. */
  readonly status: string;
  /** Its last word: a tool it called or what it said. */
  readonly line: string;
  readonly toolCount: number;
  readonly durationSeconds?: number;
  readonly depth: number;
}

export interface NoticeItem {
  readonly kind: "notice";
  readonly id: string;
  readonly level: "info" | "warning" | "error";
  readonly text: string;
}

interface QueuedPrompt {
  readonly turnId: string;
  readonly preview: string;
}

export type Question = ApprovalQuestion | ClarifyQuestion | SudoQuestion | SecretQuestion;

interface QuestionBase {
  /** What {@link ChatActions.answer} wants. */
  readonly id: string;
  /** Unix milliseconds; absent: it waits for ever. */
  readonly expiresAtMs?: number;
}

export interface ApprovalQuestion extends QuestionBase {
  readonly kind: "approval";
  /** Redacted by the gateway. */
  readonly command: string;
  readonly description: string;
  readonly toolName?: string;
  /** Unified diff of what an edit would change. */
  readonly diff?: string;
  /** In the order to show; `deny` is always among them. */
  readonly choices: readonly ApprovalChoice[];
}

export type ApprovalChoice = "once" | "session" | "always" | "deny";

export interface ClarifyQuestion extends QuestionBase {
  readonly kind: "clarify";
  readonly question: string;
  /** Empty: free text only. Free text is an answer beside choices too. */
  readonly choices: readonly string[];
  /** Several choices may be taken; the answer has them separated by line breaks. */
  readonly isMultiSelect: boolean;
  /** Where the agent asked several questions in one request: they are shown one after the other and answered together. */
  readonly batch?: ClarifyBatch;
}

export interface ClarifyBatch {
  readonly requestId: string;
  readonly parts: readonly ClarifyPart[];
  /** Which of the parts is shown, from 0. */
  readonly at: number;
  /** Answers to the parts before it, by their ids. */
  readonly given: Readonly<Record<string, string>>;
}

interface ClarifyPart extends Pick<ClarifyQuestion, "question" | "choices" | "isMultiSelect"> {
  /** Of the gateway. */
  readonly id: string;
}

/** The answer is typed hidden. */
export interface SudoQuestion extends QuestionBase {
  readonly kind: "sudo";
  readonly command: string;
}

/** The answer is typed hidden. */
export interface SecretQuestion extends QuestionBase {
  readonly kind: "secret";
  readonly prompt: string;
  readonly envVar: string;
}

export interface Notification {
  readonly id: string;
  readonly level: "info" | "warning" | "error";
  readonly text: string;
}

export interface StatusInfo {
  /** May be empty while nothing is known. */
  readonly model: string;
  readonly provider: string;
  readonly reasoningEffort?: string;
  readonly contextUsed?: number;
  readonly contextMax?: number;
  /** 0 to 100. */
  readonly contextPercent?: number;
  readonly totalTokens: number;
  /** Dollars of the session so far; absent: unknown. */
  readonly costUsd?: number;
  readonly isCostEstimated: boolean;
  /** No approvals are asked. */
  readonly isYolo: boolean;
}

interface ComposerHints {
  /** For what was typed last ({@link ChatActions.edit}); empty: none. */
  readonly completions: readonly Completion[];
  /** The text that {@link completions} belong to: shown only while it is what stands in the composer. */
  readonly completionsFor: string;
  /** Text to put into the composer, once for each `serial`. */
  readonly prefill?: { readonly serial: number; readonly text: string };
  /** Prompts of before, oldest first, for the up key. */
  readonly history: readonly string[];
}

export interface Completion {
  /** What the whole composer says once this is taken. */
  readonly text: string;
  readonly display: string;
  readonly meta: string;
}

export type Picker = SessionPicker | ModelPicker;

interface SessionPicker {
  readonly kind: "sessions";
  readonly isLoading: boolean;
  readonly rows: readonly SessionPickerRow[];
}

export interface SessionPickerRow {
  /** What {@link ChatActions.pick} wants. */
  readonly id: string;
  readonly title: string;
  readonly preview: string;
  readonly model: string;
  readonly messageCount: number;
  /** Unix milliseconds. */
  readonly lastActiveMs: number;
  readonly isCurrent: boolean;
  /** Open sessions: `idle`, `starting`, `waiting`, `working`; saved ones have none. */
  readonly liveStatus?: string;
}

interface ModelPicker {
  readonly kind: "models";
  readonly isLoading: boolean;
  readonly rows: readonly ModelPickerRow[];
}

export interface ModelPickerRow {
  /** What {@link ChatActions.pick} wants: `provider:model`. */
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly isCurrent: boolean;
  /** Why it may not answer, such as a missing key. */
  readonly warning?: string;
}

/** Where the state is kept; fits React's `useSyncExternalStore`. */
export interface ChatStore {
  /** The same object until something changes. */
  readonly get: () => ChatState;
  /** Returns what ends it. */
  readonly subscribe: (listener: () => void) => () => void;
}

const NO_STATUS: StatusInfo = {
  model: "",
  provider: "",
  totalTokens: 0,
  isCostEstimated: false,
  isYolo: false,
};

/** Before anything is known. */
export const INITIAL_STATE: ChatState = {
  connection: { kind: "connecting", text: "Connecting" },
  generation: 0,
  settled: [],
  dropped: 0,
  live: [],
  queue: [],
  questions: [],
  notifications: [],
  status: NO_STATUS,
  composer: { completions: [], completionsFor: "", history: [] },
  isLeaveArmed: false,
  serial: 0,
};

/** A store that can be written: what the controller holds. */
export interface WritableStore extends ChatStore {
  readonly update: (change: (state: ChatState) => ChatState) => void;
}

/** Listeners are told of a change after it, once each; they must not throw. */
export function createStore(initial: ChatState = INITIAL_STATE): WritableStore {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    update: (change) => {
      const next = change(state);
      if (next === state) return;
      state = next;
      for (const listener of listeners) listener();
    },
  };
}
