/** A text with a cursor: edits, and its layout in a column. Pure. */
import type { KeyName } from "../keys.ts";
import { clustersOf, clusterWidth, expandTabs } from "../text/line.ts";

export interface Draft {
  readonly text: string;
  /** Index into `text`, between two clusters. */
  readonly cursor: number;
  /** The last cut text, for Ctrl-Y. */
  readonly killed: string;
}

export const EMPTY_DRAFT: Draft = { text: "", cursor: 0, killed: "" };

/** Longest draft; the rest of a paste is dropped. */
const MAX_DRAFT_CHARACTERS = 500_000;

export function draftOf(text: string, killed = ""): Draft {
  const kept = text.slice(0, MAX_DRAFT_CHARACTERS);
  return { text: kept, cursor: kept.length, killed };
}

export function insert({ text, cursor, killed }: Draft, added: string): Draft {
  const fitting = added.slice(0, Math.max(0, MAX_DRAFT_CHARACTERS - text.length));
  return {
    text: text.slice(0, cursor) + fitting + text.slice(cursor),
    cursor: cursor + fitting.length,
    killed,
  };
}

/** Returns the draft after an editing or moving key; the same object for any other key. */
export function editDraft(draft: Draft, key: KeyName): Draft {
  const { text, cursor } = draft;
  switch (key) {
    case "newline":
      return insert(draft, "\n");
    case "left":
      return move(draft, before(text, cursor));
    case "right":
      return move(draft, after(text, cursor));
    case "word-left":
      return move(draft, wordBefore(text, cursor));
    case "word-right":
      return move(draft, wordAfter(text, cursor));
    case "home":
      return move(draft, lineStart(text, cursor));
    case "end":
      return move(draft, lineEnd(text, cursor));
    case "backspace":
      return remove(draft, before(text, cursor), cursor);
    case "delete":
      return remove(draft, cursor, after(text, cursor));
    case "delete-word":
      return cut(draft, wordBefore(text, cursor), cursor);
    case "delete-word-right":
      return cut(draft, cursor, wordAfter(text, cursor));
    case "clear-input":
      return cut(draft, 0, text.length);
    case "delete-to-end":
      return cut(draft, cursor, lineEnd(text, cursor));
    case "yank":
      return draft.killed === "" ? draft : insert(draft, draft.killed);
    default:
      return draft;
  }
}

interface DraftLayout {
  readonly rows: readonly string[];
  /** Position of the cursor, from 0. */
  readonly row: number;
  readonly column: number;
  /** Index into the text of each row's first cluster. */
  readonly starts: readonly number[];
}

/** Breaks lines exactly at `width` cells, so that the text does not jump while typing. */
export function layoutDraft({ text, cursor }: Draft, width: number): DraftLayout {
  const rows: string[] = [];
  const starts: number[] = [];
  let at = { row: 0, column: 0 };
  let index = 0;
  for (const line of text.split("\n")) {
    let [row, cells, start] = ["", 0, index];
    const end = () => {
      rows.push(row);
      starts.push(start);
    };
    for (const cluster of clustersOf(line)) {
      const shown = cluster === "\t" ? expandTabs(cluster) : cluster;
      const wide = cluster === "\t" ? shown.length : clusterWidth(cluster);
      if (cells + wide > width) {
        end();
        [row, cells, start] = ["", 0, index];
      }
      if (index === cursor) at = { row: rows.length, column: cells };
      row += shown;
      cells += wide;
      index += cluster.length;
    }
    if (index === cursor && cells >= width) {
      end();
      [row, cells, start] = ["", 0, index];
    }
    if (index === cursor) at = { row: rows.length, column: cells };
    end();
    index++;
  }
  return { rows, starts, ...at };
}

/** Moves one row up or down; undefined at the edge. */
export function moveRow(draft: Draft, width: number, step: -1 | 1): Draft | undefined {
  const { rows, starts, row, column } = layoutDraft(draft, width);
  const [target, start] = [rows[row + step], starts[row + step]];
  if (target === undefined || start === undefined) return undefined;
  let [cells, index] = [0, start];
  for (const cluster of clustersOf(draft.text.slice(start).split("\n", 1)[0] ?? "")) {
    const wide = cluster === "\t" ? expandTabs(cluster).length : clusterWidth(cluster);
    if (cells + wide > column || index - start >= rowLength(draft.text, starts, row + step)) break;
    cells += wide;
    index += cluster.length;
  }
  return move(draft, index);
}

/** Returns the length of a row in the text, including its line break. */
function rowLength(text: string, starts: readonly number[], row: number): number {
  const start = starts[row] ?? 0;
  const next = starts[row + 1] ?? text.length + 1;
  return next - start;
}

function move(draft: Draft, cursor: number): Draft {
  return cursor === draft.cursor ? draft : { ...draft, cursor };
}

function remove(draft: Draft, start: number, end: number): Draft {
  if (start === end) return draft;
  return { ...draft, text: draft.text.slice(0, start) + draft.text.slice(end), cursor: start };
}

function cut(draft: Draft, start: number, end: number): Draft {
  return start === end ? draft : { ...remove(draft, start, end), killed: draft.text.slice(start, end) };
}

/** Only this many characters are segmented: a draft may be long. */
const STRETCH = 200;

function before(text: string, cursor: number): number {
  const last = clustersOf(text.slice(Math.max(0, cursor - STRETCH), cursor)).at(-1);
  return cursor - (last?.length ?? 0);
}

function after(text: string, cursor: number): number {
  return cursor + (clustersOf(text.slice(cursor, cursor + STRETCH))[0]?.length ?? 0);
}

function wordBefore(text: string, cursor: number): number {
  const stretch = text.slice(Math.max(0, cursor - STRETCH), cursor);
  return cursor - stretch.length + stretch.search(/[\p{L}\p{N}\p{M}_]*[^\p{L}\p{N}\p{M}_]*$/u);
}

function wordAfter(text: string, cursor: number): number {
  const [word = ""] =
    text.slice(cursor, cursor + STRETCH).match(/^[^\p{L}\p{N}\p{M}_]*[\p{L}\p{N}\p{M}_]*/u) ?? [];
  return cursor + word.length;
}

function lineStart(text: string, cursor: number): number {
  return cursor === 0 ? 0 : text.lastIndexOf("\n", cursor - 1) + 1;
}

function lineEnd(text: string, cursor: number): number {
  const end = text.indexOf("\n", cursor);
  return end === -1 ? text.length : end;
}
