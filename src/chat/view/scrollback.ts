/**
 * What of the transcript goes into the terminal's scrollback, once and for good, and what is still drawn anew. Settled
 * items are printed; of an answer that streams, the lines that have no room any more are printed while it comes, so that
 * drawing it costs the same at its ten-thousandth line as at its first.
 */
import type { AssistantItem, ChatState, TranscriptItem } from "../state/state.ts";
import { answerLines, endLines, isTight, itemLines } from "./item.ts";
import { BLANK, cutLine, span, wrap, type Line, toOneLine } from "./text/line.ts";
import { markdownStateAfter, type MarkdownState } from "./text/markdown.ts";

/** Lines printed with one frame: more would keep keys waiting. */
const MAX_LINES_A_FRAME = 400;
/** Characters of a streaming answer that are laid out for one frame. */
const MAX_LAID_OUT_CHARACTERS = 64_000;

/** The end of a streaming answer that is laid out at least, so that wrapping it does not depend on where it is cut. */
const MIN_STREAM_CHARACTERS = 4_000;

interface ScrollStep {
  /** Lines to print now; may be empty. */
  readonly print: readonly Line[];
  /** Another transcript began: the screen is to be cleared before anything is printed. */
  readonly isNew: boolean;
  /** Lines to draw below what is printed. */
  readonly live: readonly Line[];
  /** More is to be printed than fits one frame: ask again soon. */
  readonly isBehind: boolean;
}

interface ScrollSize {
  readonly columns: number;
  /** Lines that there are for what is live. */
  readonly rows: number;
  readonly nowMs: number;
}

/** An answer whose first lines are printed already. */
interface Partial {
  readonly id: string;
  /** What of its text is printed: whole lines. */
  readonly text: string;
  readonly state: MarkdownState;
}

export class Scrollback {
  #generation: number | undefined;
  /** Settled items that are laid out, of all that there ever were in this generation. */
  #settled = 0;
  #waiting: Line[] = [];
  /** No session was there yet, so that nothing but the head is printed. */
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

  /** Returns whether this is another transcript than the one that stands on the screen. */
  #begin(state: ChatState, columns: number): boolean {
    const { generation, dropped } = state;
    if (generation === this.#generation) return false;
    // The first session opens on a screen that has nothing yet but the head.
    const isFirst = this.#generation === undefined || this.#isBare;
    // A first line also keeps what is live off the top row: tmux moves a screen that is erased whole into its history.
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

  /** The lines of a settled item that are not printed yet. */
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

  /** Prints the lines of the answer at work that no longer fit; `count` items are live. */
  #printStream(item: TranscriptItem | undefined, { columns, rows }: ScrollSize, count: number): void {
    if (item?.kind !== "assistant") return;
    const text = item.text.trimStart();
    const begun = this.#partial?.id === item.id ? this.#partial : undefined;
    const start = begun?.text.length ?? 0;
    const kept = Math.max(1, Math.floor(rows / (count > 1 ? 2 : 1)) - 1);
    this.#isBare = false;
    const end = endOfPrinted(text, start, kept, columns);
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

/** The session's title and folder, if they are known. */
function placeLines({ session }: ChatState, columns: number): Line[] {
  const words = [session?.title, session?.cwd].map((text) => toOneLine(text ?? "")).filter(Boolean);
  return words.length === 0 ? [] : [cutLine([span(words.join("  "), "dim")], columns)];
}

/** Index behind the last line break up to which the text is to be printed, so that about `kept` rows stay live. */
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

/** No more than a frame's worth of characters, up to a line break. */
function boundedEnd(text: string, start: number): number {
  if (text.length - start <= MAX_LAID_OUT_CHARACTERS) return text.length;
  const end = text.lastIndexOf("\n", start + MAX_LAID_OUT_CHARACTERS);
  return end < start ? text.length : end + 1;
}

/** What of a streaming answer is not printed; of very much, the end. */
function streamLines(item: AssistantItem, partial: Partial | undefined, size: ScrollSize): readonly Line[] {
  const text = item.text.trimStart().slice(partial?.text.length ?? 0);
  const space = Math.max(MIN_STREAM_CHARACTERS, size.rows * size.columns);
  const lineStart = text.lastIndexOf("\n", text.length - space) + 1;
  const start = text.length - lineStart > 2 * space ? text.length - space : lineStart;
  const state = start > 0 ? markdownStateAfter(text.slice(0, start), partial?.state) : partial?.state;
  return answerLines(text.slice(start), size.columns, state).lines;
}

/** The rest of an answer that was printed while it came; all of it, if it became another one. */
function restLines(item: AssistantItem, partial: Partial, columns: number): readonly Line[] {
  const text = item.text.trim();
  const printed = partial.text.trimEnd();
  if (text.startsWith(printed)) {
    const rest = text.slice(partial.text.length);
    return [...answerLines(rest, columns, partial.state).lines, ...endLines(item, columns)];
  }
  if (printed.startsWith(text)) return endLines(item, columns);
  const note = wrap([span("the answer as it was kept:", "dim")], columns, {
    first: [span("· ", "dim")],
    rest: [span("  ")],
  });
  return [BLANK, ...note, ...answerLines(text, columns).lines, ...endLines(item, columns)];
}

function tail(lines: readonly Line[], rows: number): readonly Line[] {
  return lines.length <= rows ? lines : lines.slice(lines.length - Math.max(0, rows));
}
