/** Keys of the dialogs of questions. */
import type {
  ApprovalChoice,
  ApprovalQuestion,
  ClarifyQuestion,
  Question,
} from "../../../client/conversation/state.ts";
import { pasteComposer, typeAhead } from "../composer/keys.ts";
import { editDraft, insert } from "../composer/draft.ts";
import { toPlainInput, type Press } from "../keys.ts";
import { isHidden, type DialogUi, type InputContext, type Ui } from "../ui-state.ts";

/**
 * Keys count as answers only after the dialog was visible and no key was pressed for this long, so that a user who is
 * typing does not answer by accident. Earlier keys go to the composer.
 */
const TYPE_AHEAD_MS = 300;
/** An answer may be sent again after this time if the question is still open. */
const RESEND_MS = 2_000;

/** Returns whether keys do not count as answers yet. */
function isTooEarly({ shownAtMs, typedAtMs }: DialogUi, nowMs: number): boolean {
  if (shownAtMs === undefined) return true;
  return nowMs - Math.max(shownAtMs, typedAtMs ?? 0) < TYPE_AHEAD_MS;
}

export function pressQuestion(ui: Ui, dialog: DialogUi, press: Press, context: InputContext): Ui {
  const question = context.state.questions[0];
  if (question === undefined) return ui;
  const tooEarly = isTooEarly(dialog, context.nowMs);
  if (isHidden(question.kind)) return pressHidden(ui, dialog, press, { ...context, question, tooEarly });
  if (tooEarly) return ahead(ui, dialog, press, context);
  if (question.kind === "approval") return pressApproval(ui, dialog, press, { ...context, question });
  return question.kind === "clarify" ? pressClarify(ui, dialog, press, { ...context, question }) : ui;
}

/** Handles a key that was not meant for the dialog. */
function ahead(ui: Ui, dialog: DialogUi, press: Press, context: InputContext): Ui {
  return { ...typeAhead(ui, press, context), dialog: { ...dialog, typedAtMs: context.nowMs } };
}

export function pasteQuestion(ui: Ui, dialog: DialogUi, text: string, context: InputContext): Ui {
  const plain = toPlainInput(text);
  if (isHidden(dialog.kind)) return reply(ui, dialog, insert(dialog.reply, plain.replaceAll("\n", "")));
  if (dialog.kind === "clarify" && !isTooEarly(dialog, context.nowMs))
    return reply(ui, dialog, insert(dialog.reply, plain));
  return { ...pasteComposer(ui, text, context), dialog: { ...dialog, typedAtMs: context.nowMs } };
}

interface ApprovalInput extends InputContext {
  readonly question: ApprovalQuestion;
}

function pressApproval(ui: Ui, dialog: DialogUi, press: Press, context: ApprovalInput): Ui {
  const { choices } = context.question;
  const answer = (index: number): Ui => {
    const choice = choices[index];
    if (choice === undefined || wasSent(dialog, context.nowMs)) return ui;
    context.actions.answer(dialog.id, {
      kind: "approval",
      choice,
      ...(dialog.isForAll ? { all: true } : {}),
    });
    return { ...ui, dialog: { ...dialog, selected: index, sentAtMs: context.nowMs } };
  };
  if ("text" in press) {
    // Only a single key is a choice. With a draft, letters belong to it.
    if (/^[1-9]$/.test(press.text)) return answer(Number(press.text) - 1);
    const letter = ui.draft.text === "" ? LETTERS[press.text] : undefined;
    if (letter !== undefined) return answer(choices.indexOf(letter));
    const others = context.state.questions.filter(({ kind }) => kind === "approval").length > 1;
    if (press.text === "a" && others) return { ...ui, dialog: { ...dialog, isForAll: !dialog.isForAll } };
    return ahead(ui, dialog, press, context);
  }
  switch (press.key) {
    case "enter":
      return answer(dialog.selected);
    case "escape":
      return answer(choices.indexOf("deny"));
    case "up":
    case "back-tab":
      return { ...ui, dialog: { ...dialog, selected: approvalRow(dialog.selected, -1, choices) } };
    case "down":
    case "tab":
      return { ...ui, dialog: { ...dialog, selected: approvalRow(dialog.selected, 1, choices) } };
    default:
      return ui;
  }
}

const LETTERS: Readonly<Record<string, ApprovalChoice>> = { y: "once", n: "deny" };

/**
 * Moves through the choices of an approval. The first arrow selects `deny`, and the rows do not wrap around: arrows and
 * Enter pressed out of habit must not allow anything.
 */
function approvalRow(selected: number, step: -1 | 1, choices: readonly ApprovalChoice[]): number {
  if (selected === -1) return choices.indexOf("deny");
  return Math.max(0, Math.min(selected + step, choices.length - 1));
}

interface ClarifyInput extends InputContext {
  readonly question: ClarifyQuestion;
}

/** The rows are the choices and, below them, the free text. */
function pressClarify(ui: Ui, dialog: DialogUi, press: Press, context: ClarifyInput): Ui {
  const { choices, isMultiSelect } = context.question;
  const rows = choices.length + 1;
  const isWriting = dialog.selected === choices.length || choices.length === 0;
  if ("text" in press) {
    const index = /^[1-9]$/.test(press.text) ? Number(press.text) - 1 : -1;
    const isChoice = dialog.reply.text === "" && index >= 0 && index < choices.length;
    if (isChoice && isMultiSelect) return tick(ui, dialog, index);
    if (isChoice) return sendClarify(ui, { ...dialog, selected: index }, context);
    if (press.text === " " && isMultiSelect && !isWriting) return tick(ui, dialog, dialog.selected);
    return reply(ui, { ...dialog, selected: choices.length }, insert(dialog.reply, press.text));
  }
  switch (press.key) {
    case "enter":
      return sendClarify(ui, dialog, context);
    case "escape":
      return answerClarify(ui, dialog, "", context);
    case "up":
    case "back-tab":
      return { ...ui, dialog: { ...dialog, selected: stepped(dialog.selected, -1, rows) } };
    case "down":
    case "tab":
      return { ...ui, dialog: { ...dialog, selected: stepped(dialog.selected, 1, rows) } };
    default:
      return reply(ui, dialog, editDraft(dialog.reply, press.key));
  }
}

function sendClarify(ui: Ui, dialog: DialogUi, context: ClarifyInput): Ui {
  const { choices, isMultiSelect } = context.question;
  const text = dialog.reply.text.trim();
  const isWriting = dialog.selected >= choices.length;
  if (isMultiSelect && (dialog.ticked.length > 0 || isWriting)) {
    const ticked = choices.filter((_, index) => dialog.ticked.includes(index));
    const answers = text === "" ? ticked : [...ticked, text];
    return answers.length === 0 ? ui : answerClarify(ui, dialog, answers.join("\n"), context);
  }
  const answer = isWriting ? text : (choices[dialog.selected] ?? "");
  // Esc skips the question; an extra Enter does not.
  return answer === "" ? ui : answerClarify(ui, dialog, answer, context);
}

function answerClarify(ui: Ui, dialog: DialogUi, answer: string, { actions, nowMs }: InputContext): Ui {
  if (wasSent(dialog, nowMs)) return ui;
  actions.answer(dialog.id, { kind: "clarify", answer });
  return { ...ui, dialog: { ...dialog, sentAtMs: nowMs } };
}

interface HiddenInput extends InputContext {
  readonly question: Question;
  readonly tooEarly: boolean;
}

/** Every character goes into the hidden answer, even too early: in the composer it would be visible. */
function pressHidden(ui: Ui, dialog: DialogUi, press: Press, context: HiddenInput): Ui {
  if ("text" in press) return reply(ui, dialog, insert(dialog.reply, press.text));
  if (press.key === "enter")
    return context.tooEarly ? ui : answerHidden(ui, dialog, dialog.reply.text, context);
  if (press.key === "escape") return context.tooEarly ? ui : answerHidden(ui, dialog, "", context);
  return press.key === "newline" ? ui : reply(ui, dialog, editDraft(dialog.reply, press.key));
}

function answerHidden(ui: Ui, dialog: DialogUi, text: string, { actions, question, nowMs }: HiddenInput): Ui {
  if (wasSent(dialog, nowMs)) return ui;
  if (question.kind === "sudo") actions.answer(dialog.id, { kind: "sudo", password: text });
  if (question.kind === "secret") actions.answer(dialog.id, { kind: "secret", value: text });
  return { ...ui, dialog: { ...dialog, reply: { text: "", cursor: 0, killed: "" }, sentAtMs: nowMs } };
}

function reply(ui: Ui, dialog: DialogUi, draft: DialogUi["reply"]): Ui {
  return draft === dialog.reply ? ui : { ...ui, dialog: { ...dialog, reply: draft } };
}

function tick(ui: Ui, dialog: DialogUi, index: number): Ui {
  const ticked = dialog.ticked.includes(index)
    ? dialog.ticked.filter((other) => other !== index)
    : [...dialog.ticked, index];
  return { ...ui, dialog: { ...dialog, selected: index, ticked } };
}

function wasSent({ sentAtMs }: DialogUi, nowMs: number): boolean {
  return sentAtMs !== undefined && nowMs - sentAtMs < RESEND_MS;
}

/** From -1, up selects the last row and down the first. */
function stepped(selected: number, step: -1 | 1, count: number): number {
  return selected === -1 && step === -1 ? count - 1 : (selected + step + count) % count;
}
