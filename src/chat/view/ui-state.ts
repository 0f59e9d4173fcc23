/** What the screen alone knows: the draft, selections, and answers that are being typed. */
import type { ChatActions } from "../screen.ts";
import type { ChatState, Picker, Question } from "../state/state.ts";
import { EMPTY_DRAFT, type Draft } from "./composer/draft.ts";

export interface Ui {
  readonly draft: Draft;
  /** While prompts of before are leafed through: which one, and what was being written. */
  readonly browsing?: { readonly index: number; readonly kept: Draft };
  readonly completion: CompletionUi;
  /** The question that is shown. */
  readonly dialog?: DialogUi;
  readonly picker?: PickerUi;
  readonly prefillSerial: number;
  /** Unix milliseconds of the last key that was meant for a hidden answer whose question is gone. */
  readonly mutedAtMs?: number;
}

interface CompletionUi {
  readonly selected: number;
  /** The text for which Esc closed the list. */
  readonly closedFor?: string;
}

export interface DialogUi {
  readonly id: string;
  readonly kind: Question["kind"];
  /** Unix milliseconds; absent until a frame with the card is on the terminal. */
  readonly shownAtMs?: number;
  /** Unix milliseconds of the last key that was typed too early to be an answer. */
  readonly typedAtMs?: number;
  /** -1 until somebody chose: an Enter too many answers nothing. */
  readonly selected: number;
  /** Choices that are ticked, when several may be. */
  readonly ticked: readonly number[];
  /** The answer is for every approval that waits. */
  readonly isForAll: boolean;
  /** Free text, or the hidden answer. */
  readonly reply: Draft;
  /** Unix milliseconds when an answer was sent. */
  readonly sentAtMs?: number;
}

export interface PickerUi {
  readonly kind: Picker["kind"];
  readonly selected: number;
  readonly filter: string;
}

/** What keys are handled with. */
export interface InputContext {
  readonly state: ChatState;
  readonly actions: ChatActions;
  /** Unix milliseconds. */
  readonly nowMs: number;
  /** Cells of the composer's text. */
  readonly width: number;
}

export const FIRST_UI: Ui = { draft: EMPTY_DRAFT, completion: { selected: 0 }, prefillSerial: 0 };

/** Whether the answer of such a question is typed unseen. */
export function isHidden(kind: Question["kind"]): boolean {
  return kind === "sudo" || kind === "secret";
}
