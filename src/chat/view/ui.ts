/** Routes keys and state changes to the parts of the screen. */
import type { ChatState } from "../../client/conversation/state.ts";
import { pasteComposer, pressComposer } from "./composer/keys.ts";
import { draftOf, EMPTY_DRAFT } from "./composer/draft.ts";
import type { Press } from "./keys.ts";
import { pressPicker } from "./dialog/picker.ts";
import { pressViewer } from "./dialog/viewer.ts";
import { pasteQuestion, pressQuestion } from "./dialog/question-keys.ts";
import { isHidden, type InputContext, type Ui } from "./ui-state.ts";

/**
 * Keys are muted this long after a hidden question ended, so that the rest of a password does not land in the composer.
 */
const MUTE_MS = 1_000;

/** Updates the local state after a change of the chat's state. */
export function followState(ui: Ui, state: ChatState, nowMs: number): Ui {
  return withPrefill(withViewer(withPicker(withDialog(ui, state, nowMs), state), state), state);
}

export function pressUi(ui: Ui, press: Press, context: InputContext): Ui {
  if ("key" in press && press.key === "interrupt") return interrupt(ui, context);
  if (isMuted(ui, context.nowMs)) {
    if ("text" in press || press.key !== "escape") return { ...ui, mutedAtMs: context.nowMs };
  }
  const question = context.state.questions[0];
  if (ui.dialog !== undefined && question?.id === ui.dialog.id)
    return pressQuestion(ui, ui.dialog, press, context);
  if (ui.viewer !== undefined && context.state.viewer !== undefined)
    return pressViewer(ui, ui.viewer, press, context);
  if (ui.picker !== undefined && context.state.picker !== undefined)
    return pressPicker(ui, ui.picker, press, context);
  return pressComposer(ui, press, context);
}

export function pasteUi(ui: Ui, text: string, context: InputContext): Ui {
  if (isMuted(ui, context.nowMs)) return { ...ui, mutedAtMs: context.nowMs };
  if (ui.dialog !== undefined && context.state.questions[0]?.id === ui.dialog.id) {
    return pasteQuestion(ui, ui.dialog, text, context);
  }
  return pasteComposer(ui, text, context);
}

/** Records that a frame with this dialog is on the terminal. */
export function markShown(ui: Ui, nowMs: number): Ui {
  if (ui.dialog === undefined || ui.dialog.shownAtMs !== undefined) return ui;
  return { ...ui, dialog: { ...ui.dialog, shownAtMs: nowMs } };
}

/** Handles Ctrl-C. It first clears a draft, so that an extra Ctrl-C does no harm. */
function interrupt(ui: Ui, { state, actions }: InputContext): Ui {
  if (state.viewer !== undefined && state.questions.length === 0) {
    actions.closeViewer();
    return ui;
  }
  const isIdle = state.turn === undefined && state.questions.length === 0 && state.picker === undefined;
  if (isIdle && ui.draft.text !== "") {
    actions.edit("");
    return { ...ui, draft: draftOf("", ui.draft.text), browsing: undefined };
  }
  actions.interrupt();
  return ui.dialog === undefined ? ui : { ...ui, dialog: { ...ui.dialog, reply: EMPTY_DRAFT } };
}

function isMuted({ mutedAtMs }: Ui, nowMs: number): boolean {
  return mutedAtMs !== undefined && nowMs - mutedAtMs < MUTE_MS;
}

function withDialog(ui: Ui, { questions }: ChatState, nowMs: number): Ui {
  const question = questions[0];
  if (question?.id === ui.dialog?.id) return ui;
  const wasTyping = ui.dialog !== undefined && isHidden(ui.dialog.kind) && ui.dialog.reply.text !== "";
  const mutedAtMs = wasTyping ? nowMs : ui.mutedAtMs;
  if (question === undefined) return { ...ui, dialog: undefined, mutedAtMs };
  const dialog = {
    id: question.id,
    kind: question.kind,
    selected: -1,
    ticked: [],
    isForAll: false,
    reply: EMPTY_DRAFT,
  };
  return { ...ui, dialog, mutedAtMs };
}

function withPicker(ui: Ui, { picker }: ChatState): Ui {
  if (picker?.kind === ui.picker?.kind) return ui;
  if (picker === undefined) return { ...ui, picker: undefined };
  return { ...ui, picker: { kind: picker.kind, selected: 0, filter: "" } };
}

function withViewer(ui: Ui, { viewer }: ChatState): Ui {
  if (viewer?.serial === ui.viewer?.serial) return ui;
  if (viewer === undefined) return { ...ui, viewer: undefined };
  return { ...ui, viewer: { serial: viewer.serial, page: viewer.at, top: 0 } };
}

function withPrefill(ui: Ui, { composer: { prefill } }: ChatState): Ui {
  if (prefill === undefined || prefill.serial === ui.prefillSerial) return ui;
  const { text, replaces, serial: prefillSerial } = prefill;
  if (replaces === undefined) {
    return { ...ui, draft: draftOf(text, ui.draft.text), browsing: undefined, prefillSerial };
  }
  if (!ui.draft.text.includes(replaces)) return { ...ui, prefillSerial };
  const draft = draftOf(ui.draft.text.replace(replaces, () => text).trimStart(), ui.draft.killed);
  return { ...ui, draft, prefillSerial };
}
