/** Renders the dialogs of questions. */
import { BLANK, cutLine, span, wrap, type Line, hanging, wrapText, toOneLine } from "../text/line.ts";
import { durationText } from "../text/quantity.ts";
import type {
  ApprovalChoice,
  ApprovalQuestion,
  ClarifyQuestion,
  SecretQuestion,
  SudoQuestion,
} from "../../../client/conversation/state.ts";
import { diffLines } from "../text/diff.ts";
import type { DialogUi } from "../ui-state.ts";
import { layoutDraft } from "../composer/draft.ts";

const INDENTED = { first: [span("  ")], rest: [span("  ")] };

interface TitleOptions {
  /** Unix milliseconds. */
  readonly expiresAtMs?: number;
  readonly nowMs: number;
  readonly width: number;
}

/** `▌ approval  terminal asks to run  4:32 left` */
function dialogTitle(kind: string, about: string, { expiresAtMs, nowMs, width }: TitleOptions): Line {
  const seconds =
    expiresAtMs === undefined ? undefined : Math.max(0, Math.round((expiresAtMs - nowMs) / 1000));
  const left = seconds === undefined ? "" : `  ${seconds < 10 ? `${seconds} s` : durationText(seconds)} left`;
  return cutLine(
    [span("▌ ", "warning"), span(kind, "warning"), span(about === "" ? "" : `  ${about}`), span(left, "dim")],
    width,
  );
}

/** Renders one choice; a mark shows the selected one also without colours. */
function choiceRow(index: number, text: string, isSelected: boolean, width: number): Line {
  const mark = isSelected ? "› " : "  ";
  const number = index < 9 ? `${index + 1}  ` : "   ";
  const role = isSelected ? "strong" : "plain";
  return cutLine(
    [span("  "), span(mark, "accent"), span(number, isSelected ? "accent" : "dim"), span(text, role)],
    width,
  );
}

/** Renders the key hints of a dialog. */
function dialogHints(first: string, last: string, width: number): readonly Line[] {
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

interface ApprovalOptions {
  readonly question: ApprovalQuestion;
  readonly dialog: DialogUi;
  /** Number of further pending approvals. */
  readonly waiting: number;
  readonly width: number;
  readonly nowMs: number;
}

export function approvalDialog(options: ApprovalOptions): readonly Line[] {
  const { question, dialog, waiting, width } = options;
  const who = question.toolName === undefined ? "" : `${toOneLine(question.toolName)} asks to run`;
  return [
    dialogTitle("approval", who, { ...question, nowMs: options.nowMs, width }),
    BLANK,
    ...commandLines(question, width),
    BLANK,
    ...descriptionLines(question, width),
    ...question.choices.map((choice, index) =>
      choiceRow(index, MEANINGS[choice], index === dialog.selected, width),
    ),
    ...othersLine(dialog, waiting, width),
    ...dialogHints(`1-${question.choices.length} or y n answers`, "esc denies", width),
  ];
}

/** Renders only the command to approve, which may be longer than the terminal. */
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

function othersLine({ isForAll }: DialogUi, waiting: number, width: number): readonly Line[] {
  if (waiting === 0) return [];
  const mark = isForAll ? "☑" : "☐";
  return wrap(
    [span(`a  same for the ${waiting} other pending approvals ${mark}`, "dim")],
    width,
    hanging([span("    ")]),
  );
}

const REPLY_MARGIN = 7;

interface ClarifyOptions {
  readonly question: ClarifyQuestion;
  readonly dialog: DialogUi;
  readonly width: number;
  readonly nowMs: number;
}

export interface DialogLines {
  readonly lines: readonly Line[];
  /** Position of the terminal's cursor, from 0; absent: hidden. */
  readonly cursor?: { readonly x: number; readonly y: number };
}

export function clarifyDialog({ question, dialog, width, nowMs }: ClarifyOptions): DialogLines {
  const { choices, isMultiSelect, batch } = question;
  const about = batch === undefined ? "" : `${batch.at + 1} of ${batch.parts.length}`;
  const head = [
    dialogTitle("question", about, { ...question, nowMs, width }),
    BLANK,
    ...wrapText(question.question.trim(), "strong", width, { first: INDENT, rest: INDENT }),
    BLANK,
    ...choices.flatMap((choice, index) => choiceLines(choice, index, { question, dialog, width, nowMs })),
  ];
  const isWriting = dialog.selected >= choices.length;
  const reply = replyLines(dialog, isWriting, choices.length > 0, width);
  const lines = [...head, ...reply.lines, ...hintLines(choices.length, isMultiSelect, width)];
  if (!isWriting || reply.cursor === undefined) return { lines };
  return { lines, cursor: { x: reply.cursor.x, y: reply.cursor.y + head.length } };
}

function choiceLines(
  choice: string,
  index: number,
  { question, dialog, width }: ClarifyOptions,
): readonly Line[] {
  const isSelected = dialog.selected === index;
  const box = question.isMultiSelect ? `${dialog.ticked.includes(index) ? "☑" : "☐"} ` : "";
  const number = index < 9 ? `${index + 1}  ` : "   ";
  const mark = [
    span("  "),
    span(isSelected ? "› " : "  ", "accent"),
    span(number, isSelected ? "accent" : "dim"),
    span(box),
  ];
  return wrap([span(toOneLine(choice), isSelected ? "strong" : "plain")], width, hanging(mark));
}

function replyLines(dialog: DialogUi, isWriting: boolean, hasChoices: boolean, width: number): DialogLines {
  const mark = [
    span("  "),
    span(isWriting ? "› " : "  ", "accent"),
    span("✎  ", isWriting ? "accent" : "dim"),
  ];
  if (dialog.reply.text === "") {
    const text = hasChoices ? "something else: type it" : "type an answer";
    return { lines: wrap([span(text, "dim")], width, hanging(mark)), cursor: { x: REPLY_MARGIN, y: 0 } };
  }
  const layout = layoutDraft(dialog.reply, Math.max(1, width - REPLY_MARGIN - 1));
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

interface HiddenOptions {
  readonly question: SudoQuestion | SecretQuestion;
  readonly dialog: DialogUi;
  readonly width: number;
  readonly nowMs: number;
}

export function hiddenDialog({ question, dialog, width, nowMs }: HiddenOptions): DialogLines {
  const options = { ...question, nowMs, width };
  const head =
    question.kind === "sudo"
      ? [
          dialogTitle("sudo", "needs your password for", options),
          BLANK,
          ...wrapText(question.command, "strong", width, { first: BODY, rest: BODY }),
          BLANK,
        ]
      : [
          dialogTitle("secret", question.envVar, options),
          BLANK,
          ...wrapText(question.prompt.trim(), "plain", width, { first: INDENT, rest: INDENT }),
          BLANK,
        ];
  const shown = dialog.reply.text === "" ? "what you type is not shown" : "••••••••";
  const lines = [
    ...head,
    [span("  › ", "accent"), span(shown, "dim")],
    BLANK,
    ...wrap([span("enter sends · esc refuses", "dim")], width, { first: INDENT, rest: INDENT }),
  ];
  return { lines, cursor: { x: dialog.reply.text === "" ? 4 : 12, y: head.length } };
}
