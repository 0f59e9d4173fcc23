/** What stands between the chat and its screen: the screen shows a {@link ChatState} and calls {@link ChatActions}. */
import type { ApprovalChoice, ChatStore } from "./state/state.ts";

/**
 * What a person at the screen may do. None of these throws or waits: what comes of it shows in the state, failures as
 * notices that say what to do next.
 */
export interface ChatActions {
  /**
   * The composer was sent: a prompt, or a slash command. While a turn is at work, `mode` says what becomes of a prompt;
   * absent: what the gateway is set to (`queue` unless changed). `steer` tells the turn at work, `interrupt` ends it first.
   */
  readonly submit: (text: string, mode?: SubmitMode) => void;
  /** The composer's text changed: completions for it come into `composer.completions`. */
  readonly edit: (text: string) => void;
  /** Ctrl-C: closes a picker, denies a question, ends the turn at work, or, twice with nothing at work, leaves. */
  readonly interrupt: () => void;
  /** An answer of the kind of the question; on a question that is open no more it does nothing. */
  readonly answer: (questionId: string, answer: QuestionAnswer) => void;
  readonly openPicker: (kind: "sessions" | "models") => void;
  /** Takes a row of the open picker and closes it. */
  readonly pick: (rowId: string) => void;
  readonly closePicker: () => void;
  /** The terminal's size, at the start and whenever it changes. */
  readonly resize: (columns: number, rows: number) => void;
  /** Ctrl-D or `/quit`. */
  readonly leave: () => void;
}

export type SubmitMode = "queue" | "steer" | "interrupt";

export type QuestionAnswer =
  /** `all`: the same for every approval that waits. */
  | { readonly kind: "approval"; readonly choice: ApprovalChoice; readonly all?: boolean }
  /** Empty skips the question. */
  | { readonly kind: "clarify"; readonly answer: string }
  /** Empty refuses. */
  | { readonly kind: "sudo"; readonly password: string }
  /** Empty refuses. */
  | { readonly kind: "secret"; readonly value: string };

export interface ChatScreen {
  readonly store: ChatStore;
  readonly actions: ChatActions;
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** False: no colour codes at all (`NO_COLOR`, `--no-color`). */
  readonly hasColour: boolean;
  /** Ends the screen. */
  readonly signal: AbortSignal;
}

/**
 * Shows the chat until `signal` ends it: `renderChat` of `view/render-chat.ts`. Resolves when the terminal is as it was
 * before; rejects only if the terminal cannot be used.
 */
export type RenderChat = (screen: ChatScreen) => Promise<void>;
