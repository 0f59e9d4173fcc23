/** The chat's controller: carries out the user's actions at the gateway. */
import { cleanHead, cleanText } from "./clean-text.ts";
import { complete, localHelp, parseSlash, runSlash, type TypedCommand } from "./slash.ts";
import {
  describeFailure,
  reasonOf,
  type GatewayCall,
  respond,
  refusalOf,
  isNotice,
  withConnection,
} from "./gateway.ts";
import type { GatewayClientEvent, GatewayNotice } from "../client/gateway.ts";
import type { WritableStore, ChatState, Question } from "./state/state.ts";
import { append, notice, restart } from "./state/items.ts";
import { listModels, listSessions } from "./pickers.ts";
import type { ChatActions, QuestionAnswer, SubmitMode } from "./screen.ts";
import { CurrentSession, type SessionTarget } from "./current-session.ts";
import { answersOf, nextPart, putQuestion, requestIdOf, removeQuestion } from "./state/reduce-questions.ts";

const MAX_HISTORY = 200;
/** Time in which a second Ctrl-C leaves the chat. */
const LEAVE_WITHIN_MS = 3_000;
const MAX_OUTPUT = 50_000;

interface ChatOptions {
  readonly call: GatewayCall;
  readonly store: WritableStore;
  readonly now: () => number;
  /** Ends the program. */
  readonly leave: () => void;
}

export class Chat implements ChatActions {
  readonly #options: ChatOptions;
  readonly #session: CurrentSession;
  readonly #opened = Promise.withResolvers<void>();
  /** Runs submitted actions one after the other, starting when a session is open. */
  #queue: Promise<void> = this.#opened.promise;
  /** Aborts completions of a text that has changed. */
  #completing = new AbortController();
  #columns = 80;
  #disarm: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ChatOptions) {
    const { call, store, now } = options;
    this.#options = options;
    this.#session = new CurrentSession({ call, store, now, columns: () => this.#columns });
  }

  /** Handles an event of the gateway or the client. */
  readonly take = (event: GatewayClientEvent): void => {
    if (isNotice(event)) return this.#notice(event);
    this.#session.take(event);
    if (event.type === "sessions.changed" && this.#state.picker?.kind === "sessions") {
      this.#try(() => this.#loadPicker("sessions"));
    }
    const isUndone = event.type === "status.update" && event.payload.kind === "undone";
    if (isUndone && event.session_id === this.#session.sessionId) this.reload();
  };

  /** Opens a session. Rejects when it cannot be opened. */
  readonly open = async (target: SessionTarget): Promise<void> => {
    await this.#session.open(target);
    this.#opened.resolve();
  };

  /** Reloads the session after events were lost or messages undone. */
  readonly reload = (): void => this.#enqueue(() => this.#session.reload());

  readonly submit = (text: string, mode?: SubmitMode): void => {
    if (text.trim() === "") return;
    this.#update((state) => ({
      ...state,
      isLeaveArmed: false,
      composer: {
        ...state.composer,
        completions: [],
        history: remember(state.composer.history, cleanText(text)),
      },
    }));
    const command = parseSlash(text);
    if (command) return this.#command(command, text);
    this.#enqueue(() => this.#prompt(text, mode));
  };

  readonly edit = (text: string): void => {
    this.#completing.abort();
    this.#completing = new AbortController();
    const { signal } = this.#completing;
    const { sessionId } = this.#session;
    const hint = (completions: ChatState["composer"]["completions"]) => {
      if (signal.aborted) return;
      this.#update((state) => ({
        ...state,
        composer: { ...state.composer, completions, completionsFor: text },
      }));
    };
    if (sessionId === undefined) return;
    // Completions are optional, so a failure is ignored.
    complete(this.#options.call, { text, sessionId, signal }).then(hint, () => hint([]));
  };

  readonly interrupt = (): void => {
    const { picker, questions, turn, isLeaveArmed } = this.#state;
    const [question] = questions;
    if (picker) return this.closePicker();
    if (question) return this.answer(question.id, refusalOf(question));
    if (turn && !turn.isInterrupting) return this.#interruptTurn();
    if (turn || isLeaveArmed) return this.leave();
    this.#update((state) => ({ ...state, isLeaveArmed: true }));
    clearTimeout(this.#disarm);
    this.#disarm = setTimeout(
      () => this.#update((state) => ({ ...state, isLeaveArmed: false })),
      LEAVE_WITHIN_MS,
    );
  };

  readonly answer = (questionId: string, answer: QuestionAnswer): void => {
    const { sessionId } = this.#session;
    const question = this.#state.questions.find(({ id }) => id === questionId);
    if (!question || sessionId === undefined || question.kind !== answer.kind) return;
    const isText = question.kind === "clarify" && answer.kind === "clarify";
    const next = isText ? nextPart(question, answer.answer) : undefined;
    if (next) return this.#update((state) => putQuestion(state, next));
    const answers = isText ? answersOf(question, answer.answer) : undefined;
    const others = answer.kind === "approval" && answer.all === true;
    const before = this.#state.questions;
    const isAnswered = (each: Question) => each.id === questionId || (others && each.kind === "approval");
    const answered = before.filter(isAnswered);
    this.#update((state) => answered.reduce((next, { id }) => removeQuestion(next, id), state));
    this.#try(async () => {
      try {
        const { call } = this.#options;
        await respond(call, { sessionId, questionId: requestIdOf(question), answer, answers });
      } catch (error) {
        // The gateway does not ask again, so the question stays until it is answered.
        if (sessionId === this.#session.sessionId) {
          this.#update((state) => answered.reduce(putQuestion, state));
        }
        throw error;
      }
    });
  };

  readonly openPicker = (kind: "sessions" | "models"): void => {
    this.#update((state) => ({ ...state, picker: { kind, isLoading: true, rows: [] } }));
    this.#try(() => this.#loadPicker(kind));
  };

  readonly pick = (rowId: string): void => {
    const { picker } = this.#state;
    this.closePicker();
    if (picker?.kind === "sessions" && rowId !== this.#session.sessionId) {
      this.#enqueue(() => this.open({ kind: "saved", ref: rowId }));
    }
    if (picker?.kind === "models") this.#enqueue(() => this.chooseModel(rowId));
  };

  readonly closePicker = (): void => {
    this.#update(({ picker: _, ...state }) => state);
  };

  readonly resize = (columns: number, rows: number): void => {
    this.#columns = Math.max(1, columns);
    const { sessionId } = this.#session;
    if (sessionId === undefined) return;
    const { call } = this.#options;
    // The gateway only uses it for layout.
    call("terminal.resize", { session_id: sessionId, cols: this.#columns, rows }).catch(() => {});
  };

  readonly leave = (): void => {
    clearTimeout(this.#disarm);
    this.#options.leave();
  };

  /** Sets the model of this session, as `provider:model`. */
  async chooseModel(model: string): Promise<void> {
    const { sessionId } = this.#session;
    if (sessionId === undefined) return;
    const { warning } = await this.#options.call("config.set", {
      key: "model",
      value: model,
      session_id: sessionId,
      scope: "session",
    });
    this.#say("info", `This session now uses the model ${model}.`);
    if (warning !== undefined) this.#say("warning", warning);
  }

  #notice(notification: GatewayNotice): void {
    if (notification.type === "client.state") {
      return this.#update((state) => withConnection(state, notification.payload));
    }
    if (notification.session_id !== this.#session.sessionId) return;
    if (notification.type === "client.gap") return this.reload();
    if (notification.type === "client.lost") {
      this.#say(
        "error",
        `The session was lost: ${notification.payload.message} /sessions lists the sessions.`,
      );
    }
  }

  get #state(): ChatState {
    return this.#options.store.get();
  }

  #interruptTurn(): void {
    const { sessionId } = this.#session;
    if (sessionId === undefined) return;
    const mark = (isInterrupting: boolean) =>
      this.#update((state) => (state.turn ? { ...state, turn: { ...state.turn, isInterrupting } } : state));
    mark(true);
    this.#try(async () => {
      try {
        await this.#options.call("session.interrupt", { session_id: sessionId });
      } catch (error) {
        mark(false);
        throw error;
      }
    });
  }

  async #prompt(text: string, mode?: SubmitMode): Promise<void> {
    const ask = async () => {
      const { sessionId } = this.#session;
      if (sessionId === undefined) throw new Error("No session is open. /new creates one.");
      return this.#options.call("prompt.submit", {
        session_id: sessionId,
        text,
        client_turn_id: crypto.randomUUID(),
        ...(mode === undefined ? {} : { when_busy: mode }),
      });
    };
    const { status } = await ask().catch(async (error: unknown) => {
      // The session was closed because it was idle.
      if (reasonOf(error) !== "not_live") throw error;
      await this.#session.reopen();
      return ask();
    });
    if (status !== "steered" && status !== "redirected") return;
    const notification = { kind: "user" as const, text: cleanHead(text, MAX_OUTPUT), origin: "steer" };
    this.#update((state) => append(state, notification));
  }

  #command({ name, args }: TypedCommand, text: string): void {
    if (name === "quit" || name === "exit") return this.leave();
    if (name === "sessions" || (name === "resume" && args === "")) return this.openPicker("sessions");
    if (name === "model" && args === "") return this.openPicker("models");
    if (name === "stop" && this.#state.turn) return this.#interruptTurn();
    if (name === "steer" && args !== "") return this.#enqueue(() => this.#prompt(args, "steer"));
    if (name === "new") {
      const { session } = this.#state;
      const target = { kind: "new", ...(session ? { cwd: session.cwd } : {}) } as const;
      return this.#enqueue(() => this.open(args === "" ? target : { ...target, title: args }));
    }
    if (name === "resume") return this.#enqueue(() => this.open({ kind: "saved", ref: args }));
    this.#enqueue(() => this.#slash(name, text));
  }

  async #slash(name: string, text: string): Promise<void> {
    const { sessionId } = this.#session;
    if (sessionId === undefined) throw new Error("No session is open. /new creates one.");
    const done = await runSlash(this.#options.call, { text, sessionId });
    if (done.sessionId !== undefined && done.sessionId !== sessionId) {
      await this.open({ kind: "saved", ref: done.sessionId });
    }
    if (name === "clear" || name === "reset") this.#update((state) => restart(state, []));
    if (name === "help") this.#say("info", localHelp());
    if (done.output !== undefined) this.#say(done.isWarning === true ? "warning" : "info", done.output);
    const { prefill } = done;
    if (prefill !== undefined) {
      this.#update((state) => ({
        ...state,
        composer: { ...state.composer, prefill: { serial: state.serial, text: cleanText(prefill) } },
        serial: state.serial + 1,
      }));
    }
    if (done.prompt !== undefined) await this.#prompt(done.prompt, done.mode);
  }

  async #loadPicker(kind: "sessions" | "models"): Promise<void> {
    const { call } = this.#options;
    const { sessionId } = this.#session;
    try {
      const picker =
        kind === "sessions"
          ? { kind, isLoading: false, rows: await listSessions(call, sessionId) }
          : { kind, isLoading: false, rows: await listModels(call, sessionId) };
      this.#update((state) =>
        state.picker?.kind === kind
          ? { ...state, picker: picker as NonNullable<ChatState["picker"]> }
          : state,
      );
    } catch (error) {
      if (this.#state.picker?.kind === kind) this.closePicker();
      throw error;
    }
  }

  #enqueue(work: () => Promise<void>): void {
    this.#queue = this.#queue.then(work).catch((error: unknown) => this.#fail(error));
  }

  #try(work: () => Promise<void>): void {
    work().catch((error: unknown) => this.#fail(error));
  }

  #fail(error: unknown): void {
    this.#say("error", describeFailure(error));
  }

  #say(level: "info" | "warning" | "error", text: string): void {
    this.#update((state) => notice(state, level, cleanHead(text, MAX_OUTPUT)));
  }

  #update(change: (state: ChatState) => ChatState): void {
    this.#options.store.update(change);
  }
}

function remember(history: readonly string[], text: string): readonly string[] {
  return [...history.filter((known) => known !== text), text].slice(-MAX_HISTORY);
}
