/** Renders the composer: the draft, and its completions. */
import type { ChatState, Completion } from "../../../client/conversation/state.ts";
import type { DialogLines } from "../dialog/dialog.ts";
import { openCompletions } from "./keys.ts";
import { layoutDraft } from "./draft.ts";
import { cutLine, span, type Line, cutToWidth, toOneLine, widthOf } from "../text/line.ts";
import type { Ui } from "../ui-state.ts";

/** Cells beside the text: the sign before it, and one for the cursor after a full row. */
const COMPOSER_MARGIN = 3;
const MAX_COMPLETIONS = 8;
const MAX_NAME_CELLS = 24;
const PLACEHOLDER = "write a prompt, or / for commands";

interface ComposerOptions {
  readonly state: ChatState;
  readonly ui: Ui;
  readonly width: number;
  /** Most lines of the text; the rest is scrolled out. */
  readonly rows: number;
}

/** Returns the cells of the text in a terminal of this width. */
export function composerWidth(width: number): number {
  return Math.max(1, width - COMPOSER_MARGIN);
}

export function composerLines(options: ComposerOptions): DialogLines {
  const { ui, width, rows } = options;
  const sign = span("› ", "accent");
  const attached = attachmentLines(options);
  if (ui.draft.text === "") {
    const lines = [...attached, cutLine([sign, span(PLACEHOLDER, "dim")], width)];
    return { lines, cursor: { x: 2, y: attached.length } };
  }
  const layout = layoutDraft(ui.draft, composerWidth(width));
  const start = Math.max(0, Math.min(layout.row - rows + 1, layout.rows.length - rows));
  const shown = layout.rows.slice(start, start + rows);
  const lines = shown.map((row, index) => {
    if (start + index === 0) return [sign, span(row)];
    const isCut = index === 0 || (index === shown.length - 1 && start + rows < layout.rows.length);
    return [span(isCut ? "⋮ " : "  ", "dim"), span(row)];
  });
  return {
    lines: [...attached, ...lines, ...completionLines(options)],
    cursor: { x: 2 + layout.column, y: attached.length + layout.row - start },
  };
}

/** The images for the next prompt, in one line. */
function attachmentLines({ state, width }: ComposerOptions): readonly Line[] {
  const { attachments } = state.composer;
  if (attachments.length === 0) return [];
  const names = attachments.map(({ name }) => toOneLine(name)).join(", ");
  return [cutLine([span("  image ", "accent"), span(names), span("  backspace removes it", "dim")], width)];
}

function completionLines({ state, ui, width }: ComposerOptions): readonly Line[] {
  const open = openCompletions(ui, state);
  if (open.length === 0) return [];
  const selected = Math.min(ui.completion.selected, open.length - 1);
  const start = Math.max(0, Math.min(selected - MAX_COMPLETIONS + 2, open.length - MAX_COMPLETIONS));
  const shown = open.slice(start, start + MAX_COMPLETIONS);
  const column = Math.min(
    MAX_NAME_CELLS,
    Math.max(...shown.map(({ display }) => widthOf(toOneLine(display)))),
  );
  const lines = shown.map((each, index) => completionLine(each, start + index === selected, column, width));
  const hidden = open.length - shown.length;
  return hidden === 0 ? lines : [...lines, [span(`    ${selected + 1} of ${open.length}`, "dim")]];
}

function completionLine(
  { display, meta }: Completion,
  isSelected: boolean,
  column: number,
  width: number,
): Line {
  const name = cutToWidth(toOneLine(display), column);
  const gap = " ".repeat(Math.max(0, column - widthOf(name)) + 2);
  const mark = span(isSelected ? "  › " : "    ", "accent");
  return cutLine(
    [mark, span(name, isSelected ? "strong" : "plain"), span(`${gap}${toOneLine(meta)}`, "dim")],
    width,
  );
}
