/** The local state of the screen: the draft, selections, and answers being typed. */
import type { ChatActions } from "../../client/conversation/actions.ts";
import type { ChatState, Picker, Question } from "../../client/conversation/state.ts";
import { EMPTY_DRAFT, type Draft } from "./composer/draft.ts";

export interface Ui {
  readonly draft: Draft;
  /** While browsing earlier prompts: which one is shown, and the draft before. */
  readonly browsing?: { readonly index: number; readonly kept: Draft };
  readonly completion: CompletionUi;
  /** The shown question. */
  readonly dialog?: DialogUi;
  readonly picker?: PickerUi;
  readonly viewer?: ViewerUi;
  /** Unix milliseconds of an Esc in an empty composer: a second one edits the last prompt. */
  readonly escapedAtMs?: number;
  /** Long pastes: the draft contains only their labels. */
  readonly pastes: readonly Paste[];
  readonly prefillSerial: number;
  /** Unix milliseconds of the last key for a hidden answer whose question has ended. */
  readonly mutedAtMs?: number;
}

export interface Paste {
  /** `[12 lines pasted]` */
  readonly label: string;
  readonly text: string;
}

interface CompletionUi {
  readonly selected: number;
  /** The text for which Esc closed the list. */
  readonly closedFor?: string;
}

export interface DialogUi {
  readonly id: string;
  readonly kind: Question["kind"];
  /** Unix milliseconds; absent until a frame with the dialog is on the terminal. */
  readonly shownAtMs?: number;
  /** Unix milliseconds of the last key that came too early to be an answer. */
  readonly typedAtMs?: number;
  /** -1 until the user selects a row: an extra Enter answers nothing. */
  readonly selected: number;
  /** The ticked choices of a multiple choice. */
  readonly ticked: readonly number[];
  /** Whether the answer is for all pending approvals. */
  readonly isForAll: boolean;
  /** The free text or the hidden answer. */
  readonly reply: Draft;
  /** When an answer was sent, Unix milliseconds. */
  readonly sentAtMs?: number;
}

export interface PickerUi {
  readonly kind: Picker["kind"];
  readonly selected: number;
  readonly filter: string;
}

export interface ViewerUi {
  /** Of the shown viewer. */
  readonly serial: number;
  readonly page: number;
  /** The first shown row of the page. */
  readonly top: number;
}

/** What key handlers need. */
export interface InputContext {
  readonly state: ChatState;
  readonly actions: ChatActions;
  /** Unix milliseconds. */
  readonly nowMs: number;
  /** Width of the composer's text in cells. */
  readonly width: number;
  /** Lines of the viewer. */
  readonly rows: number;
}

export const FIRST_UI: Ui = { draft: EMPTY_DRAFT, completion: { selected: 0 }, pastes: [], prefillSerial: 0 };

/** Returns whether the answer to such a question is typed unseen. */
export function isHidden(kind: Question["kind"]): boolean {
  return kind === "sudo" || kind === "secret";
}
