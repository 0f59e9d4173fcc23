/** What the cards of questions have in common. */
import { BLANK, cutLine, span, wrap, type Line, hanging, wrapText, toOneLine } from "../text/line.ts";
import { durationText } from "../text/quantity.ts";
import type {
  ApprovalChoice,
  ApprovalQuestion,
  ClarifyQuestion,
  SecretQuestion,
  SudoQuestion,
} from "../../state/state.ts";
import { diffLines } from "../text/diff.ts";
import type { CardUi } from "../ui-state.ts";
import { layoutDraft } from "../composer/draft.ts";

const INDENTED = { first: [span("  ")], rest: [span("  ")] };

interface CardFacts {
  /** Unix milliseconds. */
  readonly expiresAtMs?: number;
  readonly nowMs: number;
  readonly width: number;
}

/** `▌ approval  terminal asks to run  4:32 left` */
function cardTitle(kind: string, about: string, { expiresAtMs, nowMs, width }: CardFacts): Line {
  const seconds =
    expiresAtMs === undefined ? undefined : Math.max(0, Math.round((expiresAtMs - nowMs) / 1000));
  const left = seconds === undefined ? "" : `  ${seconds < 10 ? `${seconds} s` : durationText(seconds)} left`;
  return cutLine(
    [span("▌ ", "warning"), span(kind, "warning"), span(about === "" ? "" : `  ${about}`), span(left, "dim")],
    width,
  );
}

/** One choice; the chosen one is marked, so that it is seen without colour too. */
function choiceRow(index: number, text: string, isSelected: boolean, width: number): Line {
  const mark = isSelected ? "› " : "  ";
  const number = index < 9 ? `${index + 1}  ` : "   ";
  const role = isSelected ? "strong" : "plain";
  return cutLine(
    [span("  "), span(mark, "accent"), span(number, isSelected ? "accent" : "dim"), span(text, role)],
    width,
  );
}

/** The keys of a card, under it. */
function cardHints(first: string, last: string, width: number): readonly Line[] {
  return [BLANK, ...wrap([span(`${first} · ↑↓ and enter · ${last}`, "dim")], width, INDENTED)];
}

const BODY: Line = [span("    ")];
const INDENT: Line = [span("  ")];

const MEANINGS: Readonly<Record<ApprovalChoice, string>> = {
  once: "allow once",
  session: "allow in this session",
  always: "allow always",
  deny: "deny",
};

interface ApprovalFacts {
  readonly question: ApprovalQuestion;
  readonly card: CardUi;
  /** Approvals that wait behind this one. */
  readonly waiting: number;
  readonly width: number;
  readonly nowMs: number;
}

export function approvalCard(facts: ApprovalFacts): readonly Line[] {
  const { question, card, waiting, width } = facts;
  const who = question.toolName === undefined ? "" : `${toOneLine(question.toolName)} asks to run`;
  return [
    cardTitle("approval", who, { ...question, nowMs: facts.nowMs, width }),
    BLANK,
    ...commandLines(question, width),
    BLANK,
    ...descriptionLines(question, width),
    ...question.choices.map((choice, index) =>
      choiceRow(index, MEANINGS[choice], index === card.selected, width),
    ),
    ...othersLine(card, waiting, width),
    ...cardHints(`1-${question.choices.length} answers`, "esc denies", width),
  ];
}

/** What is to be approved, without the rest of the card: it may be longer than the terminal is high. */
export function commandLines(
  { command, diff = "" }: { readonly command: string; readonly diff?: string },
  width: number,
): readonly Line[] {
  const lines = wrapText(command, "strong", width, { first: BODY, rest: BODY });
  if (diff === "") return lines;
  return [...lines, ...diffLines(diff, Math.max(1, width - 4)).map((line) => [...BODY, ...line])];
}

function descriptionLines({ description, command }: ApprovalQuestion, width: number): readonly Line[] {
  if (description.trim() === "" || description.trim() === command.trim()) return [];
  return [...wrapText(description.trim(), "plain", width, { first: INDENT, rest: INDENT }), BLANK];
}

function othersLine({ isForAll }: CardUi, waiting: number, width: number): readonly Line[] {
  if (waiting === 0) return [];
  const mark = isForAll ? "☑" : "☐";
  return wrap(
    [span(`a  the same for the ${waiting} others that wait ${mark}`, "dim")],
    width,
    hanging([span("    ")]),
  );
}

const REPLY_MARGIN = 7;

interface ClarifyFacts {
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

interface HiddenFacts {
  readonly question: SudoQuestion | SecretQuestion;
  readonly card: CardUi;
  readonly width: number;
  readonly nowMs: number;
}

export function hiddenCard({ question, card, width, nowMs }: HiddenFacts): CardLines {
  const facts = { ...question, nowMs, width };
  const head =
    question.kind === "sudo"
      ? [
          cardTitle("sudo", "needs your password for", facts),
          BLANK,
          ...wrapText(question.command, "strong", width, { first: BODY, rest: BODY }),
          BLANK,
        ]
      : [
          cardTitle("secret", question.envVar, facts),
          BLANK,
          ...wrapText(question.prompt.trim(), "plain", width, { first: INDENT, rest: INDENT }),
          BLANK,
        ];
  const shown = card.reply.text === "" ? "what you type is not shown" : "••••••••";
  const lines = [
    ...head,
    [span("  › ", "accent"), span(shown, "dim")],
    BLANK,
    ...wrap([span("enter sends · esc refuses", "dim")], width, { first: INDENT, rest: INDENT }),
  ];
  return { lines, cursor: { x: card.reply.text === "" ? 4 : 12, y: head.length } };
}
