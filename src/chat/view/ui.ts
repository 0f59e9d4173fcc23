/** Keys and changes of the chat's state, handed to whatever part of the screen they concern. */
import type { ChatState } from "../state/state.ts";
import { pasteComposer, pressComposer } from "./composer/keys.ts";
import { draftOf, EMPTY_DRAFT } from "./composer/draft.ts";
import type { Press } from "./keys.ts";
import { pressPicker } from "./dialog/picker.ts";
import { pasteQuestion, pressQuestion } from "./dialog/question-keys.ts";
import { isHidden, type Hands, type Ui } from "./ui-state.ts";

/** A password that is typed on after its question ended must not land in the composer. */
const HUSH_MS = 1_000;

/** The screen's part after a change of the chat's state. */
export function followState(ui: Ui, state: ChatState, nowMs: number): Ui {
  return withPrefill(withPicker(withCard(ui, state, nowMs), state), state);
}

export function pressUi(ui: Ui, press: Press, hands: Hands): Ui {
  if ("key" in press && press.key === "interrupt") return interrupt(ui, hands);
  if (isHushed(ui, hands.nowMs)) {
    if ("text" in press || press.key !== "escape") return { ...ui, hushedAtMs: hands.nowMs };
  }
  const question = hands.state.questions[0];
  if (ui.card !== undefined && question?.id === ui.card.id) return pressQuestion(ui, ui.card, press, hands);
  if (ui.picker !== undefined && hands.state.picker !== undefined)
    return pressPicker(ui, ui.picker, press, hands);
  return pressComposer(ui, press, hands);
}

export function pasteUi(ui: Ui, text: string, hands: Hands): Ui {
  if (isHushed(ui, hands.nowMs)) return { ...ui, hushedAtMs: hands.nowMs };
  if (ui.card !== undefined && hands.state.questions[0]?.id === ui.card.id) {
    return pasteQuestion(ui, ui.card, text, hands);
  }
  return pasteComposer(ui, text, hands);
}

/** Notes that a frame with this card stands on the terminal. */
export function markShown(ui: Ui, nowMs: number): Ui {
  if (ui.card === undefined || ui.card.shownAtMs !== undefined) return ui;
  return { ...ui, card: { ...ui.card, shownAtMs: nowMs } };
}

/** A draft is thrown away first: one Ctrl-C too many costs nothing then. */
function interrupt(ui: Ui, { state, actions }: Hands): Ui {
  const isIdle = state.turn === undefined && state.questions.length === 0 && state.picker === undefined;
  if (isIdle && ui.draft.text !== "") {
    actions.edit("");
    return { ...ui, draft: draftOf("", ui.draft.text), leafing: undefined };
  }
  actions.interrupt();
  return ui.card === undefined ? ui : { ...ui, card: { ...ui.card, reply: EMPTY_DRAFT } };
}

function isHushed({ hushedAtMs }: Ui, nowMs: number): boolean {
  return hushedAtMs !== undefined && nowMs - hushedAtMs < HUSH_MS;
}

function withCard(ui: Ui, { questions }: ChatState, nowMs: number): Ui {
  const question = questions[0];
  if (question?.id === ui.card?.id) return ui;
  const wasTyping = ui.card !== undefined && isHidden(ui.card.kind) && ui.card.reply.text !== "";
  const hushedAtMs = wasTyping ? nowMs : ui.hushedAtMs;
  if (question === undefined) return { ...ui, card: undefined, hushedAtMs };
  const card = {
    id: question.id,
    kind: question.kind,
    selected: -1,
    ticked: [],
    isForAll: false,
    reply: EMPTY_DRAFT,
  };
  return { ...ui, card, hushedAtMs };
}

function withPicker(ui: Ui, { picker }: ChatState): Ui {
  if (picker?.kind === ui.picker?.kind) return ui;
  if (picker === undefined) return { ...ui, picker: undefined };
  return { ...ui, picker: { kind: picker.kind, selected: 0, filter: "" } };
}

function withPrefill(ui: Ui, { composer: { prefill } }: ChatState): Ui {
  if (prefill === undefined || prefill.serial === ui.prefillSerial) return ui;
  return {
    ...ui,
    draft: draftOf(prefill.text, ui.draft.text),
    leafing: undefined,
    prefillSerial: prefill.serial,
  };
}
