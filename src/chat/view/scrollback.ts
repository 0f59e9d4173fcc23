/**
 * Decides which lines of the transcript go into the terminal's scrollback, once, and which are redrawn. Settled items
 * are printed. The lines of a streaming answer that no longer fit are printed while it grows, so that every frame costs
 * the same.
 */
import type { AssistantItem, ChatState, TranscriptItem } from "../../client/conversation/state.ts";
import { answerLines, endLines, isTight, itemLines } from "./item.ts";
import { BLANK, cutLine, span, wrap, type Line, toOneLine } from "./text/line.ts";
import { beforeTable } from "./text/table.ts";
import { markdownStateAfter, type MarkdownState } from "./text/markdown.ts";

/** Most lines printed with one frame: more would delay keys. */
const MAX_LINES_A_FRAME = 400;
/** Most characters of a streaming answer that are laid out for one frame. */
const MAX_LAID_OUT_CHARACTERS = 64_000;

/**
 * Fewest characters of a streaming answer that are laid out, so that its wrapping does not depend on where it is cut.
 */
const MIN_STREAM_CHARACTERS = 4_000;

interface ScrollStep {
  /** Lines to print now. */
  readonly print: readonly Line[];
  /** Whether another transcript began, so that the screen must be cleared first. */
  readonly isNew: boolean;
  /** Lines to draw below what is printed. */
  readonly live: readonly Line[];
  /** Whether more lines wait to be printed in the next frames. */
  readonly isBehind: boolean;
}

interface ScrollSize {
  readonly columns: number;
  /** Available lines for live items. */
  readonly rows: number;
  readonly nowMs: number;
}

/** An answer whose first lines are already printed. */
interface Partial {
  readonly id: string;
  /** The printed part of its text, in whole lines. */
  readonly text: string;
  readonly state: MarkdownState;
}

export class Scrollback {
  #generation: number | undefined;
  /** Number of settled items of this generation that are laid out. */
  #settled = 0;
  #waiting: Line[] = [];
  /** Whether only the head line is printed, because no session was open yet. */
  #isBare = true;
  #partial: Partial | undefined;
  #last: TranscriptItem["kind"] = "notice";

  advance(state: ChatState, size: ScrollSize): ScrollStep {
    const isNew = this.#begin(state, size.columns);
    this.#layOut(state, size);
    if (this.#waiting.length === 0) this.#printStream(state.live[0], size, state.live.length);
    const print = this.#waiting.splice(0, MAX_LINES_A_FRAME);
    const isBehind = this.#waiting.length > 0 || this.#settled < state.dropped + state.settled.length;
    const live = isBehind ? [] : tail(this.#live(state.live, size), size.rows);
    return { print, isNew, live, isBehind };
  }

  /** Returns whether this is another transcript than the one on the screen. */
  #begin(state: ChatState, columns: number): boolean {
    const { generation, dropped } = state;
    if (generation === this.#generation) return false;
    // The first session opens on a screen with only the head line.
    const isFirst = this.#generation === undefined || this.#isBare;
    // A first line also keeps live lines off the top row: tmux moves a fully erased screen into its history.
    this.#waiting =
      this.#generation === undefined || !isFirst ? [headLine(state, columns)] : placeLines(state, columns);
    this.#partial = undefined;
    this.#last = "notice";
    if (dropped > 0) this.#waiting.push([span(`… ${dropped} earlier items`, "dim")]);
    this.#settled = dropped;
    this.#isBare = this.#generation === undefined && dropped === 0;
    this.#generation = generation;
    return !isFirst;
  }

  #layOut({ settled, dropped }: ChatState, size: ScrollSize): void {
    this.#settled = Math.max(this.#settled, dropped);
    while (this.#waiting.length < MAX_LINES_A_FRAME) {
      const item = settled[this.#settled - dropped];
      if (item === undefined) return;
      this.#settled++;
      this.#isBare = false;
      this.#waiting.push(...this.#itemLines(item, size));
    }
  }

  /** Returns the lines of a settled item that are not printed yet. */
  #itemLines(item: TranscriptItem, { columns, nowMs }: ScrollSize): readonly Line[] {
    const partial = this.#partial;
    if (item.kind === "assistant" && partial?.id === item.id) {
      this.#partial = undefined;
      this.#last = item.kind;
      return restLines(item, partial, columns);
    }
    return this.#spaced(item.kind, itemLines(item, columns, nowMs));
  }

  #spaced(kind: TranscriptItem["kind"], lines: readonly Line[]): readonly Line[] {
    if (lines.length === 0) return [];
    const isApart = !isTight(this.#last, kind);
    this.#last = kind;
    return isApart ? [BLANK, ...lines] : lines;
  }

  /** Prints the lines of the streaming answer that no longer fit; `count` items are live. */
  #printStream(item: TranscriptItem | undefined, { columns, rows }: ScrollSize, count: number): void {
    if (item?.kind !== "assistant") return;
    const text = item.text.trimStart();
    const begun = this.#partial?.id === item.id ? this.#partial : undefined;
    const start = begun?.text.length ?? 0;
    const kept = Math.max(1, Math.floor(rows / (count > 1 ? 2 : 1)) - 1);
    this.#isBare = false;
    const end = beforeTable(text, start, endOfPrinted(text, start, kept, columns));
    if (end <= start) return;
    const laidOut = answerLines(text.slice(start, end - 1), columns, begun?.state);
    this.#waiting.push(...(begun === undefined ? this.#spaced("assistant", laidOut.lines) : laidOut.lines));
    this.#partial = { id: item.id, text: text.slice(0, end), state: laidOut.state };
  }

  #live(items: readonly TranscriptItem[], { columns, rows, nowMs }: ScrollSize): readonly Line[] {
    const lines: Line[] = [];
    let last: TranscriptItem["kind"] = this.#last;
    for (const item of items) {
      const partial = item.kind === "assistant" && this.#partial?.id === item.id ? this.#partial : undefined;
      const own =
        item.kind === "assistant"
          ? streamLines(item, partial, { columns, rows, nowMs })
          : itemLines(item, columns, nowMs);
      if (own.length === 0) continue;
      if (partial === undefined && !isTight(last, item.kind)) lines.push(BLANK);
      lines.push(...own);
      last = item.kind;
    }
    return lines;
  }
}

function headLine(state: ChatState, columns: number): Line {
  return cutLine(
    [span("agentd", "strong"), ...placeLines(state, columns).flatMap((line) => [span("  "), ...line])],
    columns,
  );
}

/** Returns the session's title and folder, if known. */
function placeLines({ session }: ChatState, columns: number): Line[] {
  const words = [session?.title, session?.cwd].map((text) => toOneLine(text ?? "")).filter(Boolean);
  return words.length === 0 ? [] : [cutLine([span(words.join("  "), "dim")], columns)];
}

/** Returns the index up to which to print the text, after a line break, so that about `kept` rows stay live. */
function endOfPrinted(text: string, start: number, kept: number, columns: number): number {
  let [at, rows] = [text.length, 0];
  while (at > start) {
    const line = text.lastIndexOf("\n", at - 1);
    if (line < start) return start;
    rows += Math.max(1, Math.ceil((at - line - 1) / Math.max(1, columns - 2)));
    if (rows >= kept) return Math.min(line + 1, boundedEnd(text, start));
    at = line;
  }
  return start;
}

/** Limits the printed characters of one frame, up to a line break. */
function boundedEnd(text: string, start: number): number {
  if (text.length - start <= MAX_LAID_OUT_CHARACTERS) return text.length;
  const end = text.lastIndexOf("\n", start + MAX_LAID_OUT_CHARACTERS);
  return end < start ? text.length : end + 1;
}

/** Returns the lines of a streaming answer that are not printed; of a long one, the last. */
function streamLines(item: AssistantItem, partial: Partial | undefined, size: ScrollSize): readonly Line[] {
  const text = item.text.trimStart().slice(partial?.text.length ?? 0);
  const space = Math.max(MIN_STREAM_CHARACTERS, size.rows * size.columns);
  const lineStart = text.lastIndexOf("\n", text.length - space) + 1;
  const start = text.length - lineStart > 2 * space ? text.length - space : lineStart;
  const state = start > 0 ? markdownStateAfter(text.slice(0, start), partial?.state) : partial?.state;
  return answerLines(text.slice(start), size.columns, state).lines;
}

/** Returns the rest of a partly printed answer, or all of it if its text has changed. */
function restLines(item: AssistantItem, partial: Partial, columns: number): readonly Line[] {
  const text = item.text.trim();
  const printed = partial.text.trimEnd();
  if (text.startsWith(printed)) {
    const rest = text.slice(partial.text.length);
    return [...answerLines(rest, columns, partial.state).lines, ...endLines(item, columns)];
  }
  if (printed.startsWith(text)) return endLines(item, columns);
  const note = wrap([span("the final answer:", "dim")], columns, {
    first: [span("· ", "dim")],
    rest: [span("  ")],
  });
  return [BLANK, ...note, ...answerLines(text, columns).lines, ...endLines(item, columns)];
}

function tail(lines: readonly Line[], rows: number): readonly Line[] {
  return lines.length <= rows ? lines : lines.slice(lines.length - Math.max(0, rows));
}
