/** Keys while a picker is open, and which of its rows they move among. */
import type { ModelPickerRow, Picker, SessionPickerRow } from "../../state/state.ts";
import type { KeyName, Press } from "../keys.ts";
import type { Hands, PickerUi, Ui } from "../ui-state.ts";

const PAGE_ROWS = 8;

export type PickerRow = SessionPickerRow | ModelPickerRow;

/** The rows whose words hold every word that was typed. */
export function pickerRows(picker: Picker, filter: string): readonly PickerRow[] {
  const words = filter.toLowerCase().split(/\s+/);
  return picker.rows.filter((row) => {
    const text = (
      "title" in row ? `${row.title} ${row.preview} ${row.model} ${row.id}` : row.id
    ).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export function pressPicker(ui: Ui, own: PickerUi, press: Press, { state, actions }: Hands): Ui {
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
    case "delete-to-start":
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
    "page-up": Math.max(0, selected - PAGE_ROWS),
    "page-down": Math.min(last, selected + PAGE_ROWS),
    home: 0,
    end: last,
  };
  return steps[key] ?? selected;
}
