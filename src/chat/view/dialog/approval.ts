/** The card that asks whether a command may run: the command in full, as the gateway sent it. */
import type { ApprovalChoice, ApprovalQuestion } from "../../state/state.ts";
import { diffLines } from "../text/diff.ts";
import { BLANK, hanging, span, wrap, wrapText, type Line } from "../text/line.ts";
import type { CardUi } from "../ui-state.ts";
import { cardHints, cardTitle, choiceRow } from "./dialog.ts";
import { toOneLine } from "../text/width.ts";

const BODY: Line = [span("    ")];
const INDENT: Line = [span("  ")];

const MEANINGS: Readonly<Record<ApprovalChoice, string>> = {
  once: "allow once",
  session: "allow in this session",
  always: "allow always",
  deny: "deny",
};

export interface ApprovalFacts {
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
