/** Builds frames from the chat's state and the input, at most thirty a second. */
import type { ChatActions } from "../../client/conversation/actions.ts";
import type { ChatState, ChatStore, Question } from "../../client/conversation/state.ts";
import { commandLines } from "./dialog/dialog.ts";
import { composerWidth } from "./composer/lines.ts";
import { footerLines, middleRows, SPINNER_MS } from "./footer.ts";
import { draftOf } from "./composer/draft.ts";
import { expandPastes } from "./composer/paste.ts";
import { toPlainInput, type Press } from "./keys.ts";
import { BLANK, type Line } from "./text/line.ts";
import { Scrollback } from "./scrollback.ts";
import { followState, markShown, pasteUi, pressUi } from "./ui.ts";
import { FIRST_UI, type InputContext, type Ui } from "./ui-state.ts";

/** As fast as Ink draws. */
export const MAX_FPS = 30;
const FRAME_MS = 1000 / MAX_FPS;
/** Lines of a dialog besides the command. */
const DIALOG_LINES = 14;
/** A frame leaves the cursor's row and the top row free: tmux moves a fully erased screen into its history. */
const SPARE_ROWS = 2;
const SECOND_MS = 1_000;

interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface Frame {
  /** Grows with every frame that prints lines. */
  readonly printSerial: number;
  /** Lines for the scrollback, printed once for each `printSerial`. */
  readonly print: readonly Line[];
  /** Whether to clear the screen before `print`. */
  readonly isNew: boolean;
  /** Whether the terminal's size has changed since the previous frame. */
  readonly isResized: boolean;
  readonly lines: readonly Line[];
  /** From 0, within `lines`; absent: hidden. */
  readonly cursor?: { readonly x: number; readonly y: number };
}

interface PresenterOptions {
  readonly store: ChatStore;
  readonly actions: ChatActions;
  /** Returns the terminal's size. */
  readonly size: () => TerminalSize;
  readonly show: (frame: Frame) => void;
  /** Opens text in the user's editor. */
  readonly edit?: (text: string) => Promise<string>;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export class Presenter {
  readonly #options: PresenterOptions;
  readonly #scrollback = new Scrollback();
  /** Questions whose command was printed because it is too long for the dialog. */
  readonly #printed = new Set<string>();
  #ui: Ui = FIRST_UI;
  #printSerial = 0;
  #print: readonly Line[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #size: TerminalSize = { columns: 0, rows: 0 };
  #dueAtMs = Number.POSITIVE_INFINITY;
  #drawnAtMs = 0;
  #isEditing = false;

  constructor(options: PresenterOptions) {
    this.#options = options;
  }

  start(): void {
    const { store, signal } = this.#options;
    const end = store.subscribe(() => this.#wake(FRAME_MS));
    signal.addEventListener("abort", () => {
      end();
      clearTimeout(this.#timer);
    });
    this.resize();
  }

  press(press: Press): void {
    if (this.#isEditing) return;
    if ("key" in press && press.key === "redraw") return this.#draw({ isNew: true });
    if ("key" in press && press.key === "editor" && this.#isWriting()) return void this.#edit();
    this.#ui = pressUi(this.#followed(), press, this.#context());
    this.#wake(0);
  }

  paste(text: string): void {
    this.#ui = pasteUi(this.#followed(), text, this.#context());
    this.#wake(0);
  }

  /** Call after a possible resize. */
  resize(): void {
    this.#draw();
  }

  /** Call when the last frame is on the terminal. */
  drawn(): void {
    this.#ui = markShown(this.#ui, this.#options.now());
  }

  /** Returns whether keys go to the composer. */
  #isWriting(): boolean {
    const { questions, picker, viewer } = this.#options.store.get();
    return questions.length === 0 && picker === undefined && viewer === undefined;
  }

  /** Opens the draft in the user's editor; keys and frames wait until it is closed. */
  async #edit(): Promise<void> {
    const { edit, actions } = this.#options;
    if (edit === undefined) return;
    this.#isEditing = true;
    const { draft, pastes } = this.#followed();
    try {
      const text = await edit(expandPastes(draft.text, pastes));
      this.#ui = { ...this.#ui, draft: draftOf(toPlainInput(text), draft.text), pastes: [] };
      actions.edit(this.#ui.draft.text);
    } catch (error) {
      actions.fail(error);
    } finally {
      this.#isEditing = false;
      this.#draw();
    }
  }

  #context(): InputContext {
    const { store, actions, now, size } = this.#options;
    return {
      state: store.get(),
      actions,
      nowMs: now(),
      width: composerWidth(size().columns),
      rows: middleRows(Math.max(1, size().rows - SPARE_ROWS)),
    };
  }

  #followed(): Ui {
    return followState(this.#ui, this.#options.store.get(), this.#options.now());
  }

  /** Schedules a frame `afterMs` after the last one, or at once. */
  #wake(afterMs: number): void {
    if (this.#options.signal.aborted) return;
    const nowMs = this.#options.now();
    const dueAtMs = Math.max(nowMs, this.#drawnAtMs + afterMs);
    if (dueAtMs >= this.#dueAtMs) return;
    clearTimeout(this.#timer);
    this.#dueAtMs = dueAtMs;
    this.#timer = setTimeout(() => this.#draw(), dueAtMs - nowMs);
  }

  #draw({ isNew = false } = {}): void {
    if (this.#options.signal.aborted || this.#isEditing) return;
    clearTimeout(this.#timer);
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    const { store, show, now } = this.#options;
    const isResized = this.#measure();
    const state = store.get();
    this.#ui = this.#followed();
    this.#drawnAtMs = now();
    const { frame, isBehind } = this.#frame(state, this.#size);
    show({ ...frame, isNew: frame.isNew || isNew, isResized });
    if (isBehind) this.#wake(FRAME_MS);
    else if (state.turn !== undefined) this.#wake(SPINNER_MS);
    else if (state.questions[0]?.expiresAtMs !== undefined) this.#wake(SECOND_MS);
  }

  /** Returns whether the terminal's size has changed. */
  #measure(): boolean {
    const { columns, rows } = this.#options.size();
    if (columns === this.#size.columns && rows === this.#size.rows) return false;
    this.#size = { columns, rows };
    this.#options.actions.resize(columns, rows);
    return true;
  }

  #frame(state: ChatState, size: TerminalSize) {
    const nowMs = this.#options.now();
    const columns = Math.max(1, size.columns);
    const rows = Math.max(1, size.rows - SPARE_ROWS);
    const shown = this.#shortened(state, columns, rows);
    const footer = footerLines({ state: shown, ui: this.#ui, columns, rows, nowMs });
    const space = Math.max(0, rows - footer.lines.length);
    const step = this.#scrollback.advance(state, { columns, rows: space, nowMs });
    const print = [...step.print, ...(step.isBehind ? [] : this.#longCommand(state, columns, rows))];
    if (print.length > 0) {
      this.#printSerial++;
      this.#print = print;
    }
    const cursor = footer.cursor && { x: footer.cursor.x, y: footer.cursor.y + step.live.length };
    const lines = [...step.live, ...footer.lines];
    const frame = { printSerial: this.#printSerial, print: this.#print, isNew: step.isNew, lines, cursor };
    return { frame, isBehind: step.isBehind };
  }

  /** Returns a command that is too long for the dialog, to print it once above it. */
  #longCommand({ questions }: ChatState, columns: number, rows: number): readonly Line[] {
    const question = questions[0];
    if (!isTooLong(question, columns, rows) || this.#printed.has(question.id)) return [];
    this.#printed.add(question.id);
    return [BLANK, ...commandLines(question, columns)];
  }

  #shortened(state: ChatState, columns: number, rows: number): ChatState {
    const question = state.questions[0];
    if (!isTooLong(question, columns, rows)) return state;
    const count = commandLines(question, columns).length;
    const command = `(the whole command is above: ${count} lines)`;
    return { ...state, questions: [withoutDiff({ ...question, command }), ...state.questions.slice(1)] };
  }
}

function withoutDiff(question: CommandQuestion): CommandQuestion {
  if (question.kind !== "approval") return question;
  const { diff: _, ...rest } = question;
  return rest;
}

type CommandQuestion = Extract<Question, { readonly command: string }>;

function isTooLong(
  question: Question | undefined,
  columns: number,
  rows: number,
): question is CommandQuestion {
  if (question === undefined || !("command" in question)) return false;
  return (
    commandLines(question, columns).length + DIALOG_LINES > rows && commandLines(question, columns).length > 1
  );
}
