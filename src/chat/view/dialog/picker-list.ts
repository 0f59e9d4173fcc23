/** The list of an open picker: sessions to go on with, or models. */
import type { ModelPickerRow, Picker, SessionPickerRow } from "../../state/state.ts";
import { BLANK, cutLine, span, wrap, type Line, type Span } from "../text/line.ts";
import { pickerRows } from "./picker-keys.ts";
import { agoText } from "../text/quantity.ts";
import type { PickerUi } from "../ui-state.ts";
import { toOneLine } from "../text/width.ts";

const INDENT: Line = [span("  ")];

export interface PickerFacts {
  readonly picker: Picker;
  readonly own: PickerUi;
  readonly width: number;
  /** Lines that the list may take. */
  readonly rows: number;
  readonly nowMs: number;
}

export function pickerList(facts: PickerFacts): readonly Line[] {
  const { picker, own, width } = facts;
  const title = picker.kind === "sessions" ? "sessions" : "models";
  const rows = pickerRows(picker, own.filter);
  const body = rows.map((row, index) =>
    "title" in row
      ? sessionRow(row, index === own.selected, facts)
      : modelRow(row, index === own.selected, facts),
  );
  const deps = Math.max(1, facts.rows - 5);
  const start = Math.max(0, Math.min(own.selected - Math.floor(deps / 2), body.length - deps));
  const empty = picker.isLoading ? "loading" : own.filter === "" ? `no ${title} yet` : "nothing fits";
  const count = body.length > deps ? `  ${own.selected + 1} of ${body.length}` : "";
  return [
    cutLine(
      [span("▌ ", "accent"), span(title, "accent"), span(filterText(own.filter)), span(count, "dim")],
      width,
    ),
    BLANK,
    ...(body.length === 0 ? [[...INDENT, span(empty, "dim")]] : body.slice(start, start + deps)),
    BLANK,
    ...wrap([span("↑↓ and enter · type to search · esc closes", "dim")], width, {
      first: INDENT,
      rest: INDENT,
    }),
  ].slice(0, Math.max(1, facts.rows));
}

function filterText(filter: string): string {
  return filter === "" ? "" : `  ${toOneLine(filter)}▏`;
}

function sessionRow(row: SessionPickerRow, isSelected: boolean, { width, nowMs }: PickerFacts): Line {
  const name = toOneLine(row.title || row.preview) || "untitled";
  const live = row.liveStatus === undefined ? "" : `  ${row.liveStatus}`;
  const messages = `${row.messageCount} ${row.messageCount === 1 ? "message" : "messages"}`;
  const facts = `  ${agoText(nowMs - row.lastActiveMs)} · ${messages}${row.isCurrent ? " · this one" : ""}`;
  return cutLine(
    [
      ...mark(isSelected),
      span(name, isSelected ? "strong" : "plain"),
      span(live, "good"),
      span(facts, "dim"),
    ],
    width,
  );
}

function modelRow(row: ModelPickerRow, isSelected: boolean, { width }: PickerFacts): Line {
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
