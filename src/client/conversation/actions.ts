/** What a screen asks of a conversation, and what the conversation needs of the machine it runs on. */
import type { ApprovalChoice, Picker } from "./state.ts";

/**
 * The actions of the user. None throws or waits: results appear in the state, failures as notices that say what to do
 * next.
 */
export interface ChatActions {
  /**
   * Submits the composer: a prompt or a slash command. During a turn, `mode` selects what happens to a prompt: `queue`,
   * `steer` (add it to the running turn) or `interrupt` (end the turn first); absent: the gateway's setting (default
   * `queue`).
   */
  readonly submit: (text: string, mode?: SubmitMode, extras?: PromptExtras) => void;
  /** Attaches the images whose paths are in a pasted text, and removes the paths from the composer. */
  readonly drop: (pasted: string) => void;
  /** Ctrl-V: attaches the image in the clipboard. */
  readonly pasteImage: () => void;
  /** Backspace in an empty composer: removes the last attached image. */
  readonly detachImage: () => void;
  /** Reports the composer's text; its completions appear in `composer.completions`. */
  readonly edit: (text: string) => void;
  /** Ctrl-C: closes a picker, refuses a question, interrupts the turn, or, pressed twice without a turn, leaves. */
  readonly interrupt: () => void;
  /** Answers a question; does nothing when the question is no longer open. */
  readonly answer: (questionId: string, answer: QuestionAnswer) => void;
  readonly openPicker: (kind: Picker["kind"]) => void;
  /** Selects a row of the open picker and closes the picker. */
  readonly pick: (rowId: string) => void;
  readonly closePicker: () => void;
  /** Ctrl-O, `?` or `/agents`: shows whole tool results, the keys, or the sub-agents. */
  readonly openViewer: (kind: "output" | "keys" | "agents") => void;
  readonly closeViewer: () => void;
  /** Shift-Tab: selects the next permission mode. */
  readonly nextMode: () => void;
  /** Loads messages before the first one that is shown, if there are any. */
  readonly loadOlder: () => void;
  /** Esc twice: takes the last prompt back into the composer. */
  readonly editLast: () => void;
  /** Shows an error of the screen. */
  readonly fail: (error: unknown) => void;
  /** Reports the terminal's size, at the start and after each change. */
  readonly resize: (columns: number, rows: number) => void;
  /** Ctrl-D or `/quit`. */
  readonly leave: () => void;
}

/** What belongs to a prompt beside its text. With any of it, the text is not read as a command. */
export interface PromptExtras {
  readonly files?: readonly PromptFile[];
  /** The message of the user that the prompt replaces, with everything after it: `msg_` and a number. */
  readonly replaces?: string;
}

export interface PromptFile {
  readonly name: string;
  readonly kind: "image" | "file";
  readonly bytes: number;
  /** Its content as a data URL. */
  readonly url: string;
}

export type SubmitMode = "queue" | "steer" | "interrupt";

export type QuestionAnswer =
  /** `all`: the same choice for every pending approval. */
  | { readonly kind: "approval"; readonly choice: ApprovalChoice; readonly all?: boolean }
  /** Empty skips the question. */
  | { readonly kind: "clarify"; readonly answer: string }
  /** Empty refuses. */
  | { readonly kind: "sudo"; readonly password: string }
  /** Empty refuses. */
  | { readonly kind: "secret"; readonly value: string };

/** What the conversation needs of the machine it runs on; the CLI implements it. */
export interface ChatMachine {
  /** Earlier prompts of all chats, oldest first, each once. */
  readonly loadHistory: () => Promise<readonly string[]>;
  /** Keeps a prompt for later chats, unless it contains a secret. */
  readonly keepPrompt: (text: string) => Promise<void>;
  /** Puts text into the clipboard. Resolves to false when this machine has no program for it. */
  readonly copy: (text: string) => Promise<boolean>;
  /** Writes a new file, relative to the current folder, and returns its path. Rejects when the file exists. */
  readonly writeNewFile: (path: string, text: string) => Promise<string>;
  /** Opens text in the user's editor; resolves to the edited text. The editor takes over the terminal. */
  readonly editText: (text: string) => Promise<string>;
}
