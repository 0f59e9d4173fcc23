/**
 * The state of a conversation as a screen shows it: plain data, replaced on every change. All text is safe to print: control
 * characters and escape sequences are removed before. It never contains answers to questions (passwords, secrets).
 */

export interface ChatState {
  readonly connection: ConnectionState;
  /** Absent until a session is open. */
  readonly session?: SessionSummary;
  /** Grows whenever the transcript is replaced (another session, `/clear`); the screen must then be cleared. */
  readonly generation: number;
  /**
   * Items that never change again, oldest first. Append-only within a generation, except items dropped from the front, or
   * loaded before it on request.
   */
  readonly settled: readonly TranscriptItem[];
  /**
   * How many settled items were dropped from the front in this generation, less those that were loaded before it;
   * `dropped + settled.length` only grows.
   */
  readonly dropped: number;
  /** Messages before the first settled item that are not loaded; absent: it is the first one of the session. */
  readonly older?: { readonly before: string; readonly isLoading: boolean };
  /** Items that still change, in order, after the settled ones. */
  readonly live: readonly TranscriptItem[];
  /** The running turn. */
  readonly turn?: TurnState;
  /** Prompts queued behind the running turn, next first. */
  readonly queue: readonly QueuedPrompt[];
  /** Open questions, oldest first; the first one is shown. */
  readonly questions: readonly Question[];
  /** Notices with an id that stay until they are cleared. */
  readonly notifications: readonly Notification[];
  readonly status: StatusInfo;
  readonly composer: ComposerHints;
  readonly picker?: Picker;
  readonly viewer?: Viewer;
  /** Whether Ctrl-C was pressed without a turn: pressed again, it leaves the chat. */
  readonly isLeaveArmed: boolean;
  /** Counter for item ids; the screen does not use it. */
  readonly serial: number;
  /** Most settled items in memory. */
  readonly maxSettled: number;
}

export type ConnectionState =
  | { readonly kind: "connecting"; readonly text: string }
  | { readonly kind: "ready" }
  | { readonly kind: "reconnecting"; readonly text: string }
  /** Final: `text` says why and what to do. */
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
  /** Unix milliseconds. */
  readonly startedAtMs: number;
  /** The current activity, one line; may be empty. */
  readonly activity: string;
  /** Whether the model's last message has ended, so that new text starts another one. */
  readonly isBetweenMessages: boolean;
  /** Whether an interrupt was requested. */
  readonly isInterrupting: boolean;
}

/** Ids are unique within a generation. */
export type TranscriptItem = UserItem | AssistantItem | ReasoningItem | ToolItem | SubagentItem | NoticeItem;

export interface UserItem {
  readonly kind: "user";
  readonly id: string;
  readonly text: string;
  /** The origin, unless a user typed the prompt: `steer`, `cron`, `webhook`, `background`, `other`. */
  readonly origin?: string;
  readonly attachments?: readonly ItemAttachment[];
}

/** A picture or file of a prompt. */
export interface ItemAttachment {
  readonly kind: "image" | "file";
  readonly name: string;
  readonly bytes: number;
  /** A data URL of what this screen sent itself. Absent: the session has it, see `of`. */
  readonly url?: string;
  /** Where the session has it: its message, `msg_` and a number, and its position there. */
  readonly of?: { readonly messageId: string; readonly index: number };
}

/** The model's answer, Markdown. */
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
  /** A short form of the call in one line, such as the command. */
  readonly context: string;
  /**
   * `writing`: the model is still writing the call. `waiting`: it has asked, and continues with the answer. `cut`: the turn
   * ended before the tool.
   */
  readonly status: "writing" | "waiting" | "running" | "done" | "failed" | "cut";
  /** The last lines of live output; may be empty. */
  readonly progress: string;
  /** One line about the result. */
  readonly summary?: string;
  /** The result, at most its first 30,000 characters. */
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
  /** Its latest activity: a tool call or text. */
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
  /** The id for {@link ChatActions.answer}. */
  readonly id: string;
  /** Unix milliseconds; absent: it does not expire. */
  readonly expiresAtMs?: number;
  /** The gateway's id of the tool call that waits for the answer. */
  readonly toolId?: string;
}

export interface ApprovalQuestion extends QuestionBase {
  readonly kind: "approval";
  /** Redacted by the gateway. */
  readonly command: string;
  readonly description: string;
  readonly toolName?: string;
  /** Unified diff of what an edit would change. */
  readonly diff?: string;
  /** In display order; always includes `deny`. */
  readonly choices: readonly ApprovalChoice[];
}

export type ApprovalChoice = "once" | "session" | "always" | "deny";

export interface ClarifyQuestion extends QuestionBase {
  readonly kind: "clarify";
  readonly question: string;
  /** Empty: free text only. Free text is also allowed with choices. */
  readonly choices: readonly string[];
  /** Whether several choices are allowed; the answer separates them by line breaks. */
  readonly isMultiSelect: boolean;
  /** Present when one request has several questions, which are shown one after the other and answered together. */
  readonly batch?: ClarifyBatch;
}

export interface ClarifyBatch {
  readonly requestId: string;
  readonly parts: readonly ClarifyPart[];
  /** Index of the shown part. */
  readonly at: number;
  /** Answers to the earlier parts, by id. */
  readonly given: Readonly<Record<string, string>>;
}

interface ClarifyPart extends Pick<ClarifyQuestion, "question" | "choices" | "isMultiSelect"> {
  /** The gateway's id. */
  readonly id: string;
}

/** A question whose answer is typed unseen. */
export interface SudoQuestion extends QuestionBase {
  readonly kind: "sudo";
  readonly command: string;
}

/** A question whose answer is typed unseen. */
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
  /** May be empty. */
  readonly model: string;
  readonly provider: string;
  readonly reasoningEffort?: string;
  readonly contextUsed?: number;
  readonly contextMax?: number;
  /** 0 to 100. */
  readonly contextPercent?: number;
  readonly totalTokens: number;
  /** Cost of the session in dollars; absent: unknown. */
  readonly costUsd?: number;
  readonly isCostEstimated: boolean;
  /** The permission mode, once it was chosen here. */
  readonly mode?: string;
  /** Whether approvals are disabled. */
  readonly isYolo: boolean;
}

interface ComposerHints {
  /** Completions for the last edit ({@link ChatActions.edit}). */
  readonly completions: readonly Completion[];
  /** The text that {@link completions} belong to; they are shown only while the composer has this text. */
  readonly completionsFor: string;
  /** Text for the composer, inserted once per `serial`. */
  readonly prefill?: {
    readonly serial: number;
    readonly text: string;
    /** The part of the draft to replace; nothing happens when it is gone. Absent: the whole draft. */
    readonly replaces?: string;
  };
  /** Images for the next prompt, oldest first. */
  readonly attachments: readonly { readonly path: string; readonly name: string }[];
  /** What this screen sent with prompts whose turns have not started, by their id. */
  readonly sent?: Readonly<Record<string, readonly ItemAttachment[]>>;
  /** Earlier prompts, oldest first, for the up key. */
  readonly history: readonly string[];
}

export interface Completion {
  /** The composer's text after accepting this. */
  readonly text: string;
  readonly display: string;
  readonly meta: string;
}

export type Picker = SessionPicker | ModelPicker | HistoryPicker;

interface SessionPicker {
  readonly kind: "sessions";
  readonly isLoading: boolean;
  readonly rows: readonly SessionPickerRow[];
}

export interface SessionPickerRow {
  /** The id for {@link ChatActions.pick}. */
  readonly id: string;
  readonly title: string;
  readonly preview: string;
  readonly model: string;
  readonly messageCount: number;
  /** Unix milliseconds. */
  readonly lastActiveMs: number;
  readonly isCurrent: boolean;
  /** `idle`, `starting`, `waiting` or `working` for open sessions; absent for saved ones. */
  readonly liveStatus?: string;
}

interface ModelPicker {
  readonly kind: "models";
  readonly isLoading: boolean;
  readonly rows: readonly ModelPickerRow[];
}

export interface ModelPickerRow {
  /** The id for {@link ChatActions.pick}: `provider:model`. */
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly isCurrent: boolean;
  /** Why the model may not work, such as a missing key. */
  readonly warning?: string;
}

/** Earlier prompts, newest first. */
interface HistoryPicker {
  readonly kind: "history";
  readonly isLoading: boolean;
  readonly rows: readonly HistoryPickerRow[];
}

export interface HistoryPickerRow {
  /** The id for {@link ChatActions.pick}. */
  readonly id: string;
  readonly prompt: string;
}

/** Long text that scrolls over the composer until it is closed. */
export interface Viewer {
  /** Another serial is another viewer. */
  readonly serial: number;
  readonly pages: readonly ViewerPage[];
  /** Index of the page to show first. */
  readonly at: number;
}

export interface ViewerPage {
  readonly title: string;
  readonly text: string;
  /** Whether the text is a unified diff. */
  readonly isDiff: boolean;
}

/** Holds the state; fits React's `useSyncExternalStore`. */
export interface ChatStore {
  /** Returns the state: the same object until something changes. */
  readonly get: () => ChatState;
  /** Adds a listener. Returns a function that removes it. */
  readonly subscribe: (listener: () => void) => () => void;
}

/** Older ones are in the terminal's scrollback and the session's history. */
const MAX_SETTLED = 500;

const NO_STATUS: StatusInfo = {
  model: "",
  provider: "",
  totalTokens: 0,
  isCostEstimated: false,
  isYolo: false,
};

/** The state before the first event. */
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
  composer: { completions: [], completionsFor: "", history: [], attachments: [] },
  isLeaveArmed: false,
  serial: 0,
  maxSettled: MAX_SETTLED,
};

/** A store that the controller can change. */
export interface WritableStore extends ChatStore {
  readonly update: (change: (state: ChatState) => ChatState) => void;
}

/** Creates a store. Listeners are called once after each change and must not throw. */
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
