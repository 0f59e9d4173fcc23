/** The footer: activity, the question, the picker or the composer, and the status lines. */
import type { ChatState, Question, StatusInfo } from "../../client/conversation/state.ts";
import { approvalDialog, clarifyDialog, type DialogLines, hiddenDialog } from "./dialog/dialog.ts";
import { composerLines } from "./composer/lines.ts";
import {
  BLANK,
  cutLine,
  hanging,
  span,
  wrap,
  type Line,
  toOneLine,
  lineWidth,
  type Span,
  cutToWidth,
} from "./text/line.ts";
import { viewerLines } from "./dialog/viewer.ts";
import { pickerList } from "./dialog/picker.ts";
import { durationText, countText, moneyText } from "./text/quantity.ts";
import type { DialogUi, Ui } from "./ui-state.ts";

const MAX_QUEUE_LINES = 3;
const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"] as const;
export const SPINNER_MS = 120;

interface FooterOptions {
  readonly state: ChatState;
  readonly ui: Ui;
  readonly columns: number;
  /** Available lines. */
  readonly rows: number;
  readonly nowMs: number;
}

/** Returns at most `rows` lines; the upper ones are cut when they do not fit. */
export function footerLines(options: FooterOptions): DialogLines {
  const { state, ui, columns: width, rows } = options;
  const above = [
    ...activityLines(options),
    ...waitingLines(state, width),
    ...notificationLines(state, width),
  ];
  const below = [statusLine(state, width), hintLine(state, ui.draft.text !== "", width)];
  const middle = middleLines(options, middleRows(rows));
  const lines = [BLANK, ...above, ...(above.length > 0 ? [BLANK] : []), ...middle.lines, BLANK, ...below];
  const cut = Math.max(0, lines.length - Math.max(1, rows));
  const offset = 1 + above.length + Number(above.length > 0) - cut;
  const { cursor } = middle;
  if (cursor === undefined || cursor.y + offset < 0) return { lines: lines.slice(cut) };
  return { lines: lines.slice(cut), cursor: { x: Math.min(cursor.x, width - 1), y: cursor.y + offset } };
}

/** Returns the lines for a picker or the viewer: all but the status line, the hints, and blank lines around. */
export function middleRows(rows: number): number {
  return Math.max(1, rows - 4);
}

function middleLines(options: FooterOptions, space: number): DialogLines {
  const { state, ui, columns: width, nowMs } = options;
  const question = state.questions[0];
  if (question !== undefined && ui.dialog?.id === question.id) {
    const dialog = dialogLines(question, ui.dialog, options);
    if (question.kind === "sudo" || question.kind === "secret") return dialog;
    // A draft stays visible: keys that arrive too early go there.
    return ui.draft.text === ""
      ? dialog
      : below(dialog, composerLines({ state, ui, width, rows: 2 }).lines, width);
  }
  if (state.viewer !== undefined && ui.viewer !== undefined) {
    return { lines: viewerLines({ viewer: state.viewer, own: ui.viewer, width, rows: space }) };
  }
  if (state.picker !== undefined && ui.picker !== undefined) {
    return { lines: pickerList({ picker: state.picker, own: ui.picker, width, rows: space, nowMs }) };
  }
  return composerLines({ state, ui, width, rows: Math.max(1, Math.min(10, Math.floor(options.rows / 3))) });
}

function below(dialog: DialogLines, lines: readonly Line[], width: number): DialogLines {
  const note: Line = [span("  other text stays in the composer", "dim")];
  return { ...dialog, lines: [...dialog.lines, BLANK, ...lines, cutLine(note, width)] };
}

function dialogLines(
  question: Question,
  dialog: DialogUi,
  { state, columns: width, nowMs }: FooterOptions,
): DialogLines {
  switch (question.kind) {
    case "approval": {
      const waiting = state.questions.filter(({ kind }) => kind === "approval").length - 1;
      return { lines: approvalDialog({ question, dialog, waiting, width, nowMs }) };
    }
    case "clarify":
      return clarifyDialog({ question, dialog, width, nowMs });
    default:
      return hiddenDialog({ question, dialog, width, nowMs });
  }
}

function activityLines({
  state: { turn, questions },
  columns: width,
  nowMs,
}: FooterOptions): readonly Line[] {
  if (turn === undefined) return [];
  const isWaiting = questions.length > 0;
  const frame = SPINNER[Math.floor(nowMs / SPINNER_MS) % SPINNER.length] ?? "•";
  const text = turn.isInterrupting
    ? "interrupting"
    : isWaiting
      ? "waiting for you"
      : toOneLine(turn.activity) || "working";
  const seconds = Math.max(0, Math.floor((nowMs - turn.startedAtMs) / 1000));
  const clock = seconds < 1 ? "" : `  ${seconds < 10 ? `${seconds} s` : durationText(seconds)}`;
  const sign = isWaiting ? span("● ", "warning") : span(`${frame} `, "accent");
  return [cutLine([sign, span(text, turn.isInterrupting ? "warning" : "plain"), span(clock, "dim")], width)];
}

/** The prompts queued behind the running turn. */
function waitingLines({ queue }: ChatState, width: number): readonly Line[] {
  const prompts = queue.slice(0, MAX_QUEUE_LINES).map(({ preview }) => waitingLine("next", preview, width));
  const hidden = queue.length - prompts.length;
  return hidden > 0 ? [...prompts, [span(`  and ${hidden} more`, "dim")]] : prompts;
}

function waitingLine(label: string, text: string, width: number): Line {
  return cutLine([span("  "), span(label, "accent"), span(`  ${toOneLine(text)}`, "dim")], width);
}

function notificationLines({ notifications }: ChatState, width: number): readonly Line[] {
  return notifications.slice(-MAX_QUEUE_LINES).flatMap(({ level, text }) => {
    const role = level === "error" ? "bad" : level === "warning" ? "warning" : "dim";
    return wrap([span(toOneLine(text), role)], width, hanging([span("! ", role)]));
  });
}

const SEPARATOR = span(" · ", "dim");
const MAX_TITLE_CELLS = 32;
/** Percentage of the context from which the line warns. */
const CONTEXT_IS_TIGHT = 80;

/** Returns as many values as fit, the most important first. */
function statusLine(state: ChatState, width: number): Line {
  const { connection, session, status } = state;
  const title = toOneLine(session?.title ?? "");
  const options: readonly (Span | undefined)[] = [
    connection.kind === "ready"
      ? undefined
      : span(connectionText(connection), connectionRole(connection.kind)),
    status.isYolo ? span("approves all", "warning") : undefined,
    status.mode === undefined ? undefined : span(status.mode, "accent"),
    status.model === "" ? undefined : span(modelText(status)),
    contextSpan(status),
    status.costUsd === undefined
      ? undefined
      : span(`${status.isCostEstimated ? "~" : ""}${moneyText(status.costUsd)}`),
    state.queue.length === 0 ? undefined : span(`${state.queue.length} queued`, "accent"),
    title === "" ? undefined : span(cutToWidth(title, MAX_TITLE_CELLS), "dim"),
  ];
  return fitting(options.filter((fact) => fact !== undefined && fact.text !== "") as readonly Span[], width);
}

function hintLine(state: ChatState, isWriting: boolean, width: number): Line {
  const hints = hintsOf(state, isWriting).map((hint) => span(hint, state.isLeaveArmed ? "warning" : "dim"));
  return fitting(hints, width);
}

function hintsOf(
  { isLeaveArmed, turn, picker, viewer, questions }: ChatState,
  isWriting: boolean,
): readonly string[] {
  if (isLeaveArmed) return ["ctrl-c again leaves"];
  const [question] = questions;
  if (question !== undefined) return turn === undefined ? [] : [REFUSALS[question.kind]];
  if (picker !== undefined || viewer !== undefined) return [];
  if (turn !== undefined && isWriting)
    return ["enter queues", "ctrl-t steers", "ctrl-x interrupts and sends"];
  if (turn !== undefined) return ["ctrl-c interrupts", "write on: enter queues, ctrl-t steers"];
  if (isWriting) return ["enter sends", "alt-enter new line", "ctrl-c clears"];
  return ["? keys", "/ commands", "ctrl-r history", "ctrl-d leaves"];
}

/** What Ctrl-C does to a question. */
const REFUSALS: Readonly<Record<Question["kind"], string>> = {
  approval: "ctrl-c denies",
  clarify: "ctrl-c skips",
  sudo: "ctrl-c refuses",
  secret: "ctrl-c refuses",
};

function connectionText(connection: ChatState["connection"]): string {
  if (connection.kind === "ready") return "";
  return toOneLine(connection.text) || connection.kind;
}

function connectionRole(kind: ChatState["connection"]["kind"]): Span["role"] {
  return kind === "closed" ? "bad" : "warning";
}

function modelText({ provider, model, reasoningEffort }: StatusInfo): string {
  const name = provider === "" || model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
  return reasoningEffort === undefined || reasoningEffort === "" ? name : `${name} ${reasoningEffort}`;
}

function contextSpan({ contextPercent, contextUsed, contextMax, totalTokens }: StatusInfo): Span | undefined {
  const percent =
    contextPercent ??
    (contextUsed !== undefined && contextMax ? (contextUsed / contextMax) * 100 : undefined);
  if (percent !== undefined) {
    const of = contextMax === undefined ? "" : ` of ${countText(contextMax)}`;
    return span(`context ${Math.round(percent)}%${of}`, percent >= CONTEXT_IS_TIGHT ? "warning" : "plain");
  }
  return totalTokens === 0 ? undefined : span(`${countText(totalTokens)} tokens`);
}

function fitting(options: readonly Span[], width: number): Line {
  const line: Span[] = [];
  for (const fact of options) {
    const next = line.length === 0 ? [fact] : [...line, SEPARATOR, fact];
    if (line.length > 0 && lineWidth(next) > width) break;
    line.splice(0, line.length, ...next);
  }
  return cutLine(line, width);
}
