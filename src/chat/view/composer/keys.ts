/** Keys while the composer has them. */
import type { SubmitMode } from "../../screen.ts";
import type { ChatState, Completion } from "../../state/state.ts";
import { draftOf, editDraft, insert, moveRow, type Draft } from "./draft.ts";
import { toPlainInput, type KeyName, type Press } from "../keys.ts";
import type { Hands, Ui } from "../ui-state.ts";

export function pressComposer(ui: Ui, press: Press, hands: Hands): Ui {
  if ("text" in press) return change(ui, insert(ui.draft, press.text), hands);
  switch (press.key) {
    case "enter":
      return enter(ui, hands);
    case "tab":
      return accept(ui, hands);
    case "steer":
      return send(ui, hands, "steer");
    case "send-now":
      return send(ui, hands, "interrupt");
    case "escape":
      return { ...ui, completion: { selected: 0, closedFor: ui.draft.text } };
    case "up":
      return up(ui, hands);
    case "down":
      return down(ui, hands);
    case "models":
    case "sessions":
      hands.actions.openPicker(press.key);
      return ui;
    case "leave":
      return leave(ui, hands);
    default:
      return change(ui, editDraft(ui.draft, press.key), hands);
  }
}

export function pasteComposer(ui: Ui, text: string, hands: Hands): Ui {
  return change(ui, insert(ui.draft, toPlainInput(text)), hands);
}

/** What is typed while a card is too young to be answered: it goes on in the composer, but sends nothing. */
export function typeAhead(ui: Ui, press: Press, hands: Hands): Ui {
  if ("text" in press) return change(ui, insert(ui.draft, press.text), hands);
  const edits: readonly KeyName[] = ["backspace", "delete", "newline", "left", "right", "home", "end"];
  return edits.includes(press.key) ? change(ui, editDraft(ui.draft, press.key), hands) : ui;
}

/** The completions that belong to what stands in the composer; none once Esc closed them. */
export function openCompletions(ui: Ui, { composer }: ChatState): readonly Completion[] {
  const { text, cursor } = ui.draft;
  const isOpen = text !== "" && composer.completionsFor === text && ui.completion.closedFor !== text;
  return isOpen && cursor === text.length ? composer.completions : [];
}

function enter(ui: Ui, hands: Hands): Ui {
  const { text, cursor, killed } = ui.draft;
  const chosen = chosenCompletion(ui, hands.state);
  if (chosen !== undefined && chosen.text.trim() !== text.trim()) return accept(ui, hands);
  if (cursor === text.length && text.endsWith("\\")) {
    return change(ui, draftOf(`${text.slice(0, -1)}\n`, killed), hands);
  }
  return send(ui, hands);
}

function send(ui: Ui, { actions }: Hands, mode?: SubmitMode): Ui {
  const text = ui.draft.text.trimEnd();
  if (text.trim() === "") return ui;
  actions.submit(text, mode);
  actions.edit("");
  return { ...ui, draft: draftOf("", ui.draft.killed), leafing: undefined, completion: { selected: 0 } };
}

function accept(ui: Ui, hands: Hands): Ui {
  const chosen = chosenCompletion(ui, hands.state);
  return chosen === undefined ? ui : change(ui, draftOf(chosen.text, ui.draft.killed), hands);
}

function chosenCompletion(ui: Ui, state: ChatState): Completion | undefined {
  const open = openCompletions(ui, state);
  return open[Math.min(ui.completion.selected, open.length - 1)];
}

function leave(ui: Ui, hands: Hands): Ui {
  if (ui.draft.text !== "") return change(ui, editDraft(ui.draft, "delete"), hands);
  hands.actions.leave();
  return ui;
}

function change(ui: Ui, draft: Draft, { actions }: Hands): Ui {
  if (draft === ui.draft) return ui;
  if (draft.text === ui.draft.text) return { ...ui, draft };
  actions.edit(draft.text);
  return { ...ui, draft, leafing: undefined, completion: { selected: 0 } };
}

function up(ui: Ui, hands: Hands): Ui {
  const open = openCompletions(ui, hands.state).length;
  if (open > 0) return select(ui, (ui.completion.selected - 1 + open) % open);
  const moved = moveRow(ui.draft, hands.width, -1);
  if (moved !== undefined) return { ...ui, draft: moved };
  const { history } = hands.state.composer;
  return leaf(ui, (ui.leafing?.index ?? history.length) - 1, hands);
}

function down(ui: Ui, hands: Hands): Ui {
  const open = openCompletions(ui, hands.state).length;
  if (open > 0) return select(ui, (ui.completion.selected + 1) % open);
  const moved = moveRow(ui.draft, hands.width, 1);
  if (moved !== undefined) return { ...ui, draft: moved };
  return ui.leafing === undefined ? ui : leaf(ui, ui.leafing.index + 1, hands);
}

function select(ui: Ui, selected: number): Ui {
  return { ...ui, completion: { ...ui.completion, selected } };
}

/** Shows a prompt of before; behind the last one, what was being written. */
function leaf(ui: Ui, index: number, { state, actions }: Hands): Ui {
  const { history } = state.composer;
  const kept = ui.leafing?.kept ?? ui.draft;
  const text = history[index];
  if (text === undefined && index < history.length) return ui;
  const draft = text === undefined ? kept : draftOf(text, kept.killed);
  actions.edit(draft.text);
  // A prompt of before that is a command needs no list over it.
  const completion = { selected: 0, closedFor: draft.text };
  return { ...ui, draft, completion, leafing: text === undefined ? undefined : { index, kept } };
}
