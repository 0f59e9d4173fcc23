/** The picker of sessions or models: its rows and its keys. */
import type {
  HistoryPickerRow,
  ModelPickerRow,
  Picker,
  SessionPickerRow,
} from "../../../client/conversation/state.ts";
import { BLANK, cutLine, span, wrap, type Line, type Span, toOneLine } from "../text/line.ts";
import { agoText } from "../text/quantity.ts";
import type { PickerUi, InputContext, Ui } from "../ui-state.ts";
import type { KeyName, Press } from "../keys.ts";

const INDENT: Line = [span("  ")];

interface PickerOptions {
  readonly picker: Picker;
  readonly own: PickerUi;
  readonly width: number;
  /** Most lines of the list. */
  readonly rows: number;
  readonly nowMs: number;
}

export function pickerList(options: PickerOptions): readonly Line[] {
  const { picker, own, width } = options;
  const title = picker.kind === "history" ? "prompts" : picker.kind;
  const rows = pickerRows(picker, own.filter);
  const body = rows.map((row, index) => rowLine(row, index === own.selected, options));
  const space = Math.max(1, options.rows - 5);
  const start = Math.max(0, Math.min(own.selected - Math.floor(space / 2), body.length - space));
  const empty = picker.isLoading ? "loading" : own.filter === "" ? `no ${title} yet` : "no match";
  const count = body.length > space ? `  ${own.selected + 1} of ${body.length}` : "";
  return [
    cutLine(
      [span("▌ ", "accent"), span(title, "accent"), span(filterText(own.filter)), span(count, "dim")],
      width,
    ),
    BLANK,
    ...(body.length === 0 ? [[...INDENT, span(empty, "dim")]] : body.slice(start, start + space)),
    BLANK,
    ...wrap([span("↑↓ and enter · type to search · esc closes", "dim")], width, {
      first: INDENT,
      rest: INDENT,
    }),
  ].slice(0, Math.max(1, options.rows));
}

function rowLine(row: PickerRow, isSelected: boolean, options: PickerOptions): Line {
  if ("title" in row) return sessionRow(row, isSelected, options);
  if ("model" in row) return modelRow(row, isSelected, options);
  const text = span(toOneLine(row.prompt), isSelected ? "strong" : "plain");
  return cutLine([...mark(isSelected), text], options.width);
}

function filterText(filter: string): string {
  return filter === "" ? "" : `  ${toOneLine(filter)}▏`;
}

function sessionRow(row: SessionPickerRow, isSelected: boolean, { width, nowMs }: PickerOptions): Line {
  const name = toOneLine(row.title || row.preview) || "untitled";
  const live = row.liveStatus === undefined ? "" : `  ${row.liveStatus}`;
  const messages = `${row.messageCount} ${row.messageCount === 1 ? "message" : "messages"}`;
  const options = `  ${agoText(nowMs - row.lastActiveMs)} · ${messages}${row.isCurrent ? " · this one" : ""}`;
  return cutLine(
    [
      ...mark(isSelected),
      span(name, isSelected ? "strong" : "plain"),
      span(live, "good"),
      span(options, "dim"),
    ],
    width,
  );
}

function modelRow(row: ModelPickerRow, isSelected: boolean, { width }: PickerOptions): Line {
  const current = row.isCurrent ? "  this one" : "";
  const warning = row.warning === undefined ? "" : `  ${toOneLine(row.warning)}`;
  return cutLine(
    [
      ...mark(isSelected),
      span(`${row.provider}:`, "dim"),
      span(row.model, isSelected ? "strong" : "plain"),
      span(current, "good"),
      span(warning, "warning"),
    ],
    width,
  );
}

function mark(isSelected: boolean): readonly Span[] {
  return [span(isSelected ? "  › " : "    ", "accent")];
}

const PAGE_ROWS = 8;

type PickerRow = SessionPickerRow | ModelPickerRow | HistoryPickerRow;

/** Returns the rows that contain every typed word. */
function pickerRows(picker: Picker, filter: string): readonly PickerRow[] {
  const words = filter.toLowerCase().split(/\s+/);
  return picker.rows.filter((row) => {
    const text = searchText(row).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function searchText(row: PickerRow): string {
  if ("prompt" in row) return row.prompt;
  return "title" in row ? `${row.title} ${row.preview} ${row.model} ${row.id}` : row.id;
}

export function pressPicker(ui: Ui, own: PickerUi, press: Press, { state, actions }: InputContext): Ui {
  const { picker } = state;
  if (picker === undefined) return ui;
  const rows = pickerRows(picker, own.filter);
  if ("text" in press) return show(ui, { ...own, filter: own.filter + press.text, selected: 0 });
  const row = rows[own.selected];
  switch (press.key) {
    case "enter":
      if (row !== undefined) actions.pick(row.id);
      return ui;
    case "escape":
      actions.closePicker();
      return ui;
    case "backspace":
      return show(ui, { ...own, filter: own.filter.slice(0, -1), selected: 0 });
    case "clear-input":
    case "delete-word":
      return show(ui, { ...own, filter: "", selected: 0 });
    default:
      return show(ui, { ...own, selected: moved(own.selected, press.key, rows.length) });
  }
}

function show(ui: Ui, picker: PickerUi): Ui {
  return { ...ui, picker };
}

function moved(selected: number, key: KeyName, count: number): number {
  const last = Math.max(0, count - 1);
  const steps: Partial<Record<KeyName, number>> = {
    up: selected === 0 ? last : selected - 1,
    "back-tab": selected === 0 ? last : selected - 1,
    down: selected >= last ? 0 : selected + 1,
    tab: selected >= last ? 0 : selected + 1,
    // Ctrl-R again shows the next older prompt, as in a shell.
    history: selected >= last ? 0 : selected + 1,
    "page-up": Math.max(0, selected - PAGE_ROWS),
    "page-down": Math.min(last, selected + PAGE_ROWS),
    home: 0,
    end: last,
  };
  return steps[key] ?? selected;
}
