/** Keys while a question is shown. */
import type { ApprovalQuestion, ClarifyQuestion, Question } from "../../state/state.ts";
import { pasteComposer, typeAhead } from "../composer/keys.ts";
import { editDraft, insert } from "../composer/draft.ts";
import { toPlainInput, type Press } from "../keys.ts";
import { isHidden, type CardUi, type Hands, type Ui } from "../ui-state.ts";

/**
 * Nobody answers a card that was not there when the finger went down: keys count as answers only after the card stood on
 * the terminal for this long, and after nobody typed for this long. What is typed before goes on in the composer.
 */
const TYPE_AHEAD_MS = 300;
/** An answer is sent once; if the question is still open then, it may be sent again. */
const RESEND_MS = 2_000;

/** Whether keys are no answers yet. */
function isTooEarly({ shownAtMs, typedAtMs }: CardUi, nowMs: number): boolean {
  if (shownAtMs === undefined) return true;
  return nowMs - Math.max(shownAtMs, typedAtMs ?? 0) < TYPE_AHEAD_MS;
}

export function pressQuestion(ui: Ui, card: CardUi, press: Press, hands: Hands): Ui {
  const question = hands.state.questions[0];
  if (question === undefined) return ui;
  const tooEarly = isTooEarly(card, hands.nowMs);
  if (isHidden(question.kind)) return pressHidden(ui, card, press, { ...hands, question, tooEarly });
  if (tooEarly) return ahead(ui, card, press, hands);
  if (question.kind === "approval") return pressApproval(ui, card, press, { ...hands, question });
  return question.kind === "clarify" ? pressClarify(ui, card, press, { ...hands, question }) : ui;
}

/** No answer: whoever typed this was not looking at the card. */
function ahead(ui: Ui, card: CardUi, press: Press, hands: Hands): Ui {
  return { ...typeAhead(ui, press, hands), card: { ...card, typedAtMs: hands.nowMs } };
}

export function pasteQuestion(ui: Ui, card: CardUi, text: string, hands: Hands): Ui {
  const plain = toPlainInput(text);
  if (isHidden(card.kind)) return reply(ui, card, insert(card.reply, plain.replaceAll("\n", "")));
  if (card.kind === "clarify" && !isTooEarly(card, hands.nowMs))
    return reply(ui, card, insert(card.reply, plain));
  return { ...pasteComposer(ui, text, hands), card: { ...card, typedAtMs: hands.nowMs } };
}

interface ApprovalHands extends Hands {
  readonly question: ApprovalQuestion;
}

function pressApproval(ui: Ui, card: CardUi, press: Press, hands: ApprovalHands): Ui {
  const { choices } = hands.question;
  const answer = (index: number): Ui => {
    const choice = choices[index];
    if (choice === undefined || wasSent(card, hands.nowMs)) return ui;
    hands.actions.answer(card.id, { kind: "approval", choice, ...(card.isForAll ? { all: true } : {}) });
    return { ...ui, card: { ...card, selected: index, sentAtMs: hands.nowMs } };
  };
  if ("text" in press) {
    // Two digits at once are nobody's choice.
    if (/^[1-9]$/.test(press.text)) return answer(Number(press.text) - 1);
    const others = hands.state.questions.filter(({ kind }) => kind === "approval").length > 1;
    if (press.text === "a" && others) return { ...ui, card: { ...card, isForAll: !card.isForAll } };
    return ahead(ui, card, press, hands);
  }
  switch (press.key) {
    case "enter":
      return answer(card.selected);
    case "escape":
      return answer(choices.indexOf("deny"));
    case "up":
    case "back-tab":
      return { ...ui, card: { ...card, selected: stepped(card.selected, -1, choices.length) } };
    case "down":
    case "tab":
      return { ...ui, card: { ...card, selected: stepped(card.selected, 1, choices.length) } };
    default:
      return ui;
  }
}

interface ClarifyHands extends Hands {
  readonly question: ClarifyQuestion;
}

/** Rows are the choices and, below them, the free text. */
function pressClarify(ui: Ui, card: CardUi, press: Press, hands: ClarifyHands): Ui {
  const { choices, isMultiSelect } = hands.question;
  const rows = choices.length + 1;
  const isWriting = card.selected === choices.length || choices.length === 0;
  if ("text" in press) {
    const index = /^[1-9]$/.test(press.text) ? Number(press.text) - 1 : -1;
    const isChoice = card.reply.text === "" && index >= 0 && index < choices.length;
    if (isChoice && isMultiSelect) return tick(ui, card, index);
    if (isChoice) return sendClarify(ui, { ...card, selected: index }, hands);
    if (press.text === " " && isMultiSelect && !isWriting) return tick(ui, card, card.selected);
    return reply(ui, { ...card, selected: choices.length }, insert(card.reply, press.text));
  }
  switch (press.key) {
    case "enter":
      return sendClarify(ui, card, hands);
    case "escape":
      return answerClarify(ui, card, "", hands);
    case "up":
    case "back-tab":
      return { ...ui, card: { ...card, selected: stepped(card.selected, -1, rows) } };
    case "down":
    case "tab":
      return { ...ui, card: { ...card, selected: stepped(card.selected, 1, rows) } };
    default:
      return reply(ui, card, editDraft(card.reply, press.key));
  }
}

function sendClarify(ui: Ui, card: CardUi, hands: ClarifyHands): Ui {
  const { choices, isMultiSelect } = hands.question;
  const text = card.reply.text.trim();
  const isWriting = card.selected >= choices.length;
  if (isMultiSelect && (card.ticked.length > 0 || isWriting)) {
    const ticked = choices.filter((_, index) => card.ticked.includes(index));
    const answers = text === "" ? ticked : [...ticked, text];
    return answers.length === 0 ? ui : answerClarify(ui, card, answers.join("\n"), hands);
  }
  const answer = isWriting ? text : (choices[card.selected] ?? "");
  // Esc skips the question; an Enter too many does not.
  return answer === "" ? ui : answerClarify(ui, card, answer, hands);
}

function answerClarify(ui: Ui, card: CardUi, answer: string, { actions, nowMs }: Hands): Ui {
  if (wasSent(card, nowMs)) return ui;
  actions.answer(card.id, { kind: "clarify", answer });
  return { ...ui, card: { ...card, sentAtMs: nowMs } };
}

interface HiddenHands extends Hands {
  readonly question: Question;
  readonly tooEarly: boolean;
}

/** Every character goes into the hidden answer, however early: in the composer it could be read. */
function pressHidden(ui: Ui, card: CardUi, press: Press, hands: HiddenHands): Ui {
  if ("text" in press) return reply(ui, card, insert(card.reply, press.text));
  if (press.key === "enter") return hands.tooEarly ? ui : answerHidden(ui, card, card.reply.text, hands);
  if (press.key === "escape") return hands.tooEarly ? ui : answerHidden(ui, card, "", hands);
  return press.key === "newline" ? ui : reply(ui, card, editDraft(card.reply, press.key));
}

function answerHidden(ui: Ui, card: CardUi, text: string, { actions, question, nowMs }: HiddenHands): Ui {
  if (wasSent(card, nowMs)) return ui;
  if (question.kind === "sudo") actions.answer(card.id, { kind: "sudo", password: text });
  if (question.kind === "secret") actions.answer(card.id, { kind: "secret", value: text });
  return { ...ui, card: { ...card, reply: { text: "", cursor: 0, killed: "" }, sentAtMs: nowMs } };
}

function reply(ui: Ui, card: CardUi, draft: CardUi["reply"]): Ui {
  return draft === card.reply ? ui : { ...ui, card: { ...card, reply: draft } };
}

function tick(ui: Ui, card: CardUi, index: number): Ui {
  const ticked = card.ticked.includes(index)
    ? card.ticked.filter((other) => other !== index)
    : [...card.ticked, index];
  return { ...ui, card: { ...card, selected: index, ticked } };
}

function wasSent({ sentAtMs }: CardUi, nowMs: number): boolean {
  return sentAtMs !== undefined && nowMs - sentAtMs < RESEND_MS;
}

/** From -1, up goes to the last one and down to the first. */
function stepped(selected: number, step: -1 | 1, count: number): number {
  return selected === -1 && step === -1 ? count - 1 : (selected + step + count) % count;
}
