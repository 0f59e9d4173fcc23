/** The viewer: pages of long text that scroll in the live part of the screen. */
import type { Viewer, ViewerPage } from "../../../client/conversation/state.ts";
import { pressComposer } from "../composer/keys.ts";
import { diffLines } from "../text/diff.ts";
import { BLANK, cutLine, span, toOneLine, wrapText, type Line } from "../text/line.ts";
import type { KeyName, Press } from "../keys.ts";
import type { InputContext, Ui, ViewerUi } from "../ui-state.ts";

interface ViewerOptions {
  readonly viewer: Viewer;
  readonly own: ViewerUi;
  readonly width: number;
  /** Most lines. */
  readonly rows: number;
}

/** Lines around the text: the title, the hints and two blank ones. */
const FRAME_LINES = 4;
const INDENT: Line = [span("  ")];

export function viewerLines({ viewer, own, width, rows }: ViewerOptions): readonly Line[] {
  const page = viewer.pages[own.page];
  if (page === undefined) return [];
  const space = Math.max(1, rows - FRAME_LINES);
  const all = pageLines(page, width);
  const top = Math.max(0, Math.min(own.top, all.length - space));
  const shown = all.slice(top, top + space);
  const position = all.length > space ? `  ${top + 1}-${top + shown.length} of ${all.length}` : "";
  const number = viewer.pages.length > 1 ? `  ${own.page + 1} of ${viewer.pages.length}` : "";
  const keys = [
    ...(all.length > space ? ["↑↓ page up page down"] : []),
    ...(viewer.pages.length > 1 ? ["←→ other blocks"] : []),
    "esc closes",
  ].join(" · ");
  return [
    cutLine([span("▌ ", "accent"), span(toOneLine(page.title), "accent"), span(number, "dim")], width),
    BLANK,
    ...shown,
    BLANK,
    cutLine([...INDENT, span(`${keys}${position}`, "dim")], width),
  ];
}

function pageLines({ text, isDiff }: ViewerPage, width: number): readonly Line[] {
  const body = Math.max(1, width - 2);
  if (isDiff) return diffLines(text, body, Number.POSITIVE_INFINITY).map((line) => [...INDENT, ...line]);
  return wrapText(text, "plain", width, { first: INDENT, rest: INDENT });
}

/** A jump to the end of the page; the rows below are bounded when it is drawn. */
const END = 1_000_000;

export function pressViewer(ui: Ui, own: ViewerUi, press: Press, context: InputContext): Ui {
  const { viewer } = context.state;
  if (viewer === undefined) return ui;
  if ("text" in press) return typeInViewer(ui, own, press.text, { viewer, ...context });
  if (CLOSING.has(press.key)) {
    context.actions.closeViewer();
    return ui;
  }
  return scroll(ui, own, viewer, { key: press.key, ...context });
}

interface TypeInput extends InputContext {
  readonly viewer: Viewer;
}

/** Keys that arrive fast are one text: those behind the one that closes the viewer belong to the composer. */
function typeInViewer(ui: Ui, own: ViewerUi, text: string, context: TypeInput): Ui {
  const closing = text.search(/[q?]/);
  if (closing === -1) {
    return text === " " ? scroll(ui, own, context.viewer, { key: "page-down", ...context }) : ui;
  }
  context.actions.closeViewer();
  const rest = text.slice(closing + 1);
  return rest === "" ? ui : pressComposer(ui, { text: rest }, context);
}

const CLOSING: ReadonlySet<KeyName> = new Set(["escape", "enter", "output", "leave"]);

interface ScrollInput extends InputContext {
  readonly key: KeyName;
}

function scroll(ui: Ui, own: ViewerUi, viewer: Viewer, { key, width, rows }: ScrollInput): Ui {
  const page = viewer.pages[own.page];
  if (page === undefined) return ui;
  const space = Math.max(1, rows - FRAME_LINES);
  const last = Math.max(0, pageLines(page, width).length - space);
  const top = Math.min(own.top, last);
  const tops: Partial<Record<KeyName, number>> = {
    up: top - 1,
    down: top + 1,
    "page-up": top - space,
    "page-down": top + space,
    home: 0,
    end: END,
  };
  const pages: Partial<Record<KeyName, number>> = { left: own.page - 1, right: own.page + 1 };
  const wanted = tops[key];
  if (wanted !== undefined) {
    return { ...ui, viewer: { ...own, top: Math.max(0, Math.min(wanted, last)) } };
  }
  const other = pages[key];
  if (other === undefined || viewer.pages[other] === undefined) return ui;
  return { ...ui, viewer: { ...own, page: other, top: 0 } };
}
