/** The card of a question of the model: choices, free text, or both. */
import type { ClarifyQuestion } from "../../state/state.ts";
import { cardTitle } from "./dialog.ts";
import { layoutDraft } from "../composer/draft.ts";
import { BLANK, hanging, span, wrap, wrapText, type Line } from "../text/line.ts";
import type { CardUi } from "../ui-state.ts";
import { toOneLine } from "../text/width.ts";

const INDENT: Line = [span("  ")];
const REPLY_MARGIN = 7;

export interface ClarifyFacts {
  readonly question: ClarifyQuestion;
  readonly card: CardUi;
  readonly width: number;
  readonly nowMs: number;
}

export interface CardLines {
  readonly lines: readonly Line[];
  /** Where the terminal's cursor belongs, from 0; absent: nowhere. */
  readonly cursor?: { readonly x: number; readonly y: number };
}

export function clarifyCard({ question, card, width, nowMs }: ClarifyFacts): CardLines {
  const { choices, isMultiSelect, batch } = question;
  const about = batch === undefined ? "" : `${batch.at + 1} of ${batch.parts.length}`;
  const head = [
    cardTitle("question", about, { ...question, nowMs, width }),
    BLANK,
    ...wrapText(question.question.trim(), "strong", width, { first: INDENT, rest: INDENT }),
    BLANK,
    ...choices.flatMap((choice, index) => choiceLines(choice, index, { question, card, width, nowMs })),
  ];
  const isWriting = card.selected >= choices.length;
  const reply = replyLines(card, isWriting, choices.length > 0, width);
  const lines = [...head, ...reply.lines, ...hintLines(choices.length, isMultiSelect, width)];
  if (!isWriting || reply.cursor === undefined) return { lines };
  return { lines, cursor: { x: reply.cursor.x, y: reply.cursor.y + head.length } };
}

function choiceLines(
  choice: string,
  index: number,
  { question, card, width }: ClarifyFacts,
): readonly Line[] {
  const isSelected = card.selected === index;
  const box = question.isMultiSelect ? `${card.ticked.includes(index) ? "☑" : "☐"} ` : "";
  const number = index < 9 ? `${index + 1}  ` : "   ";
  const mark = [
    span("  "),
    span(isSelected ? "› " : "  ", "accent"),
    span(number, isSelected ? "accent" : "dim"),
    span(box),
  ];
  return wrap([span(toOneLine(choice), isSelected ? "strong" : "plain")], width, hanging(mark));
}

function replyLines(card: CardUi, isWriting: boolean, hasChoices: boolean, width: number): CardLines {
  const mark = [
    span("  "),
    span(isWriting ? "› " : "  ", "accent"),
    span("✎  ", isWriting ? "accent" : "dim"),
  ];
  if (card.reply.text === "") {
    const text = hasChoices ? "something else: type it" : "type an answer";
    return { lines: wrap([span(text, "dim")], width, hanging(mark)), cursor: { x: REPLY_MARGIN, y: 0 } };
  }
  const layout = layoutDraft(card.reply, Math.max(1, width - REPLY_MARGIN - 1));
  const margin = hanging(mark);
  const lines = layout.rows.map((row, index) => [...(index === 0 ? margin.first : margin.rest), span(row)]);
  return { lines, cursor: { x: REPLY_MARGIN + layout.column, y: layout.row } };
}

function hintLines(count: number, isMultiSelect: boolean, width: number): readonly Line[] {
  const range = count === 1 ? "1" : `1-${Math.min(count, 9)}`;
  const keys = isMultiSelect ? `${range} ticks · enter sends` : `${range} answers · ↑↓ and enter`;
  const text = count === 0 ? "enter sends · esc skips" : `${keys} · esc skips`;
  return [BLANK, ...wrap([span(text, "dim")], width, { first: INDENT, rest: INDENT })];
}
