/** Keys of the composer. */
import type { SubmitMode } from "../../../client/conversation/actions.ts";
import type { ChatState, Completion } from "../../../client/conversation/state.ts";
import { looksLikeImagePath } from "../../../client/conversation/attachments.ts";
import { collapsePaste, labelBefore, expandPastes } from "./paste.ts";
import { draftOf, editDraft, insert, moveRow, type Draft } from "./draft.ts";
import { toPlainInput, type KeyName, type Press } from "../keys.ts";
import type { InputContext, Ui } from "../ui-state.ts";

export function pressComposer(ui: Ui, press: Press, context: InputContext): Ui {
  if ("text" in press) {
    if (press.text !== "?" || ui.draft.text !== "") return change(ui, insert(ui.draft, press.text), context);
    context.actions.openViewer("keys");
    return ui;
  }
  switch (press.key) {
    case "output":
      context.actions.openViewer("output");
      return ui;
    case "back-tab":
      context.actions.nextMode();
      return ui;
    case "enter":
      return enter(ui, context);
    case "tab":
      return accept(ui, context);
    case "steer":
      return send(ui, context, "steer");
    case "send-now":
      return send(ui, context, "interrupt");
    case "escape":
      return escape(ui, context);
    case "up":
      return up(ui, context);
    case "down":
      return down(ui, context);
    case "models":
    case "sessions":
    case "history":
      context.actions.openPicker(press.key);
      return ui;
    case "leave":
      return leave(ui, context);
    case "paste-image":
      context.actions.pasteImage();
      return ui;
    case "backspace":
      return backspace(ui, context);
    default:
      return change(ui, editDraft(ui.draft, press.key), context);
  }
}

export function pasteComposer(ui: Ui, text: string, context: InputContext): Ui {
  const plain = toPlainInput(text);
  const collapsed = collapsePaste(ui.pastes, plain);
  if (collapsed !== undefined) {
    const pastes = [...ui.pastes, collapsed];
    return change({ ...ui, pastes }, insert(ui.draft, collapsed.label), context);
  }
  if (looksLikeImagePath(plain)) context.actions.drop(plain);
  return change(ui, insert(ui.draft, plain), context);
}

/** Handles keys that come too early to answer a dialog: they edit the composer but send nothing. */
export function typeAhead(ui: Ui, press: Press, context: InputContext): Ui {
  if ("text" in press) return change(ui, insert(ui.draft, press.text), context);
  const edits: readonly KeyName[] = ["backspace", "delete", "newline", "left", "right", "home", "end"];
  return edits.includes(press.key) ? change(ui, editDraft(ui.draft, press.key), context) : ui;
}

/** Returns the completions of the composer's text; none after Esc. */
export function openCompletions(ui: Ui, { composer }: ChatState): readonly Completion[] {
  const { text, cursor } = ui.draft;
  const isOpen = text !== "" && composer.completionsFor === text && ui.completion.closedFor !== text;
  return isOpen && cursor === text.length ? composer.completions : [];
}

function enter(ui: Ui, context: InputContext): Ui {
  const { text, cursor, killed } = ui.draft;
  const chosen = chosenCompletion(ui, context.state);
  if (chosen !== undefined && chosen.text.trim() !== text.trim()) return accept(ui, context);
  if (cursor === text.length && text.endsWith("\\")) {
    return change(ui, draftOf(`${text.slice(0, -1)}\n`, killed), context);
  }
  return send(ui, context);
}

function send(ui: Ui, { actions, state }: InputContext, mode?: SubmitMode): Ui {
  const text = expandPastes(ui.draft.text, ui.pastes).trimEnd();
  if (text.trim() === "" && state.composer.attachments.length === 0) return ui;
  actions.submit(text, mode);
  actions.edit("");
  return {
    ...ui,
    draft: draftOf("", ui.draft.killed),
    pastes: [],
    browsing: undefined,
    completion: { selected: 0 },
  };
}

/** Removes the label of a long paste as a whole, and in an empty composer the last attached image. */
function backspace(ui: Ui, context: InputContext): Ui {
  const { text, cursor } = ui.draft;
  if (text === "" && context.state.composer.attachments.length > 0) {
    context.actions.detachImage();
    return ui;
  }
  const label = labelBefore(ui.pastes, text.slice(0, cursor));
  if (label === undefined) return change(ui, editDraft(ui.draft, "backspace"), context);
  const start = cursor - label.length;
  return change(ui, { ...ui.draft, text: text.slice(0, start) + text.slice(cursor), cursor: start }, context);
}

function accept(ui: Ui, context: InputContext): Ui {
  const chosen = chosenCompletion(ui, context.state);
  return chosen === undefined ? ui : change(ui, draftOf(chosen.text, ui.draft.killed), context);
}

function chosenCompletion(ui: Ui, state: ChatState): Completion | undefined {
  const open = openCompletions(ui, state);
  return open[Math.min(ui.completion.selected, open.length - 1)];
}

/** Esc closes the completions; twice in an empty composer without a turn, it edits the last prompt. */
function escape(ui: Ui, { state, actions, nowMs }: InputContext): Ui {
  if (ui.draft.text !== "" || state.turn !== undefined) {
    return { ...ui, completion: { selected: 0, closedFor: ui.draft.text }, escapedAtMs: undefined };
  }
  if (ui.escapedAtMs === undefined || nowMs - ui.escapedAtMs > TWICE_WITHIN_MS) {
    return { ...ui, escapedAtMs: nowMs };
  }
  actions.editLast();
  return { ...ui, escapedAtMs: undefined };
}

const TWICE_WITHIN_MS = 1_000;

function leave(ui: Ui, context: InputContext): Ui {
  if (ui.draft.text !== "") return change(ui, editDraft(ui.draft, "delete"), context);
  context.actions.leave();
  return ui;
}

function change(ui: Ui, draft: Draft, { actions }: InputContext): Ui {
  if (draft === ui.draft) return ui;
  if (draft.text === ui.draft.text) return { ...ui, draft };
  actions.edit(draft.text);
  return { ...ui, draft, browsing: undefined, completion: { selected: 0 } };
}

function up(ui: Ui, context: InputContext): Ui {
  const open = openCompletions(ui, context.state).length;
  if (open > 0) return select(ui, (ui.completion.selected - 1 + open) % open);
  const moved = moveRow(ui.draft, context.width, -1);
  if (moved !== undefined) return { ...ui, draft: moved };
  const { history } = context.state.composer;
  return browse(ui, (ui.browsing?.index ?? history.length) - 1, context);
}

function down(ui: Ui, context: InputContext): Ui {
  const open = openCompletions(ui, context.state).length;
  if (open > 0) return select(ui, (ui.completion.selected + 1) % open);
  const moved = moveRow(ui.draft, context.width, 1);
  if (moved !== undefined) return { ...ui, draft: moved };
  return ui.browsing === undefined ? ui : browse(ui, ui.browsing.index + 1, context);
}

function select(ui: Ui, selected: number): Ui {
  return { ...ui, completion: { ...ui.completion, selected } };
}

/** Shows an earlier prompt; after the last one, the draft. */
function browse(ui: Ui, index: number, { state, actions }: InputContext): Ui {
  const { history } = state.composer;
  const kept = ui.browsing?.kept ?? ui.draft;
  const text = history[index];
  if (text === undefined && index < history.length) return ui;
  const draft = text === undefined ? kept : draftOf(text, kept.killed);
  actions.edit(draft.text);
  // An earlier prompt that is a command opens no completion list.
  const completion = { selected: 0, closedFor: draft.text };
  return { ...ui, draft, completion, browsing: text === undefined ? undefined : { index, kept } };
}
