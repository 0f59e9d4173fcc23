/** The chat's controller: carries out the user's actions at the gateway. */
import { cleanHead, cleanLine, cleanText } from "./clean-text.ts";
import { complete, localHelp, parseSlash, runSlash, welcomeText, type TypedCommand } from "./slash.ts";
import {
  describeFailure,
  reasonOf,
  type GatewayCall,
  respond,
  refusalOf,
  isNotice,
  withConnection,
} from "./gateway.ts";
import type { GatewayClientEvent, GatewayNotice } from "../gateway.ts";
import type { WritableStore, ChatState, Picker, Question } from "./state.ts";
import { append, fillComposer, notice, restart } from "./items.ts";
import { listModels, listSessions } from "./pickers.ts";
import type { ChatActions, PromptExtras, QuestionAnswer, SubmitMode } from "./actions.ts";
import { joinHistory, keepSent, showOlder } from "./reduce.ts";
import { copyAnswer, exportSession, nextMode, runShell } from "./commands.ts";
import { agentsPage, closeViewer, KEYS_PAGE, openViewer, outputPages } from "./viewer.ts";
import type { ChatMachine } from "./actions.ts";
import { Attachments } from "./attachments.ts";
import { CurrentSession, type SessionTarget } from "./current-session.ts";
import { answersOf, nextPart, putQuestion, requestIdOf, removeQuestion } from "./reduce-questions.ts";

/** Time in which a second Ctrl-C leaves the chat. */
const LEAVE_WITHIN_MS = 3_000;
const MAX_OUTPUT = 50_000;
const OLDER_MESSAGES = 200;

interface ChatOptions {
  readonly call: GatewayCall;
  readonly store: WritableStore;
  readonly now: () => number;
  /** Ends the program. */
  readonly leave: () => void;
  /** Absent: prompts are not kept, and nothing is copied or written. */
  readonly machine?: ChatMachine;
}

export class Chat implements ChatActions {
  readonly #options: ChatOptions;
  readonly #session: CurrentSession;
  readonly #attachments: Attachments;
  readonly #opened = Promise.withResolvers<void>();
  /** Runs submitted actions one after the other, starting when a session is open. */
  #queue: Promise<void> = this.#opened.promise;
  /** Aborts completions of a text that has changed. */
  #completing = new AbortController();
  #columns = 80;
  #keeping: Promise<unknown> = Promise.resolve();
  #disarm: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ChatOptions) {
    const { call, store, now } = options;
    this.#options = options;
    this.#attachments = new Attachments({ call, store });
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

  /** Loads the prompts of earlier chats. */
  readonly loadHistory = async (): Promise<void> => {
    const kept = (await this.#options.machine?.loadHistory()) ?? [];
    this.#update((state) => {
      const history = joinHistory(kept.map(cleanText), state.composer.history);
      // A picker that was opened before the file was read shows them, too.
      const picker = state.picker?.kind === "history" ? historyPicker(history) : state.picker;
      return { ...state, picker, composer: { ...state.composer, history } };
    });
  };

  /** Says which model answers, and what to try. */
  readonly welcome = (): void => {
    const { model, provider } = this.#state.status;
    this.#update((state) => notice(state, "info", welcomeText({ model, provider })));
  };

  /** Resolves when every prompt is kept for later chats. */
  readonly kept = (): Promise<unknown> => this.#keeping;

  /** Reloads the session after events were lost or messages undone. */
  readonly reload = (): void => this.#enqueue(() => this.#session.reload());

  readonly submit = (text: string, mode?: SubmitMode, extras: PromptExtras = {}): void => {
    if (extras.files ?? extras.replaces) return this.#enqueue(() => this.#prompt(text, mode, extras));
    const { attachments } = this.#state.composer;
    if (text.trim() === "") {
      if (attachments.length > 0) this.#enqueue(() => this.#prompt("", mode));
      return;
    }
    this.#update((state) => ({
      ...state,
      isLeaveArmed: false,
      composer: {
        ...state.composer,
        completions: [],
        history: joinHistory(state.composer.history, [cleanText(text)]),
      },
    }));
    const command = parseSlash(text);
    const shell = /^!\s*([\s\S]*\S)/.exec(text)?.[1];
    if (command?.name !== "quit" && command?.name !== "exit") this.#keep(cleanText(text));
    if (command) return this.#command(command, text);
    if (shell !== undefined) return this.#try(() => this.#shell(shell));
    this.#enqueue(() => this.#prompt(text, mode));
  };

  readonly drop = (pasted: string): void => this.#enqueue(() => this.#attachments.drop(pasted));

  readonly pasteImage = (): void => this.#enqueue(() => this.#attachments.paste());

  readonly detachImage = (): void => this.#enqueue(() => this.#attachments.detach());

  readonly edit = (text: string): void => {
    this.#completing.abort();
    this.#completing = new AbortController();
    const { signal } = this.#completing;
    const hint = (completions: ChatState["composer"]["completions"]) => {
      if (signal.aborted) return;
      this.#update((state) => ({
        ...state,
        composer: { ...state.composer, completions, completionsFor: text },
      }));
    };
    const find = async () => {
      if (this.#session.sessionId === undefined) await this.#opened.promise;
      if (signal.aborted) return [];
      return complete(this.#options.call, { text, sessionId: this.#openId(), signal });
    };
    // Completions are optional, so a failure is ignored.
    find().then(hint, () => hint([]));
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

  readonly openPicker = (kind: Picker["kind"]): void => {
    if (kind === "history") {
      return this.#update((state) => ({ ...state, picker: historyPicker(state.composer.history) }));
    }
    this.#update((state) => ({ ...state, picker: { kind, isLoading: true, rows: [] } }));
    this.#try(() => this.#loadPicker(kind));
  };

  readonly pick = (rowId: string): void => {
    const { picker } = this.#state;
    this.closePicker();
    if (picker?.kind === "sessions" && rowId !== this.#session.sessionId) {
      this.#enqueue(() => this.open({ kind: "saved", ref: rowId }));
    }
    const prompt = picker?.kind === "history" ? picker.rows.find(({ id }) => id === rowId) : undefined;
    if (prompt) this.#update((state) => fillComposer(state, { text: prompt.prompt }));
    if (picker?.kind === "models") this.#enqueue(() => this.chooseModel(rowId));
  };

  readonly closePicker = (): void => {
    this.#update(({ picker: _, ...state }) => state);
  };

  readonly openViewer: ChatActions["openViewer"] = (kind) => {
    if (kind === "keys") return this.#update((state) => openViewer(state, [KEYS_PAGE]));
    if (kind === "agents") return this.#update((state) => openViewer(state, [agentsPage(state)]));
    const pages = outputPages(this.#state);
    if (pages.length > 0) this.#update((state) => openViewer(state, pages, -1));
  };

  readonly closeViewer = (): void => this.#update(closeViewer);

  readonly nextMode = (): void =>
    this.#enqueue(async () => {
      const target = { call: this.#options.call, sessionId: this.#openId() };
      const mode = await nextMode(target, this.#state.status.mode);
      await this.#slash({ name: "mode", args: mode }, `/mode ${mode}`);
    });

  readonly editLast = (): void => {
    const { settled, live } = this.#state;
    const hasPrompt = [...settled, ...live].some(({ kind }) => kind === "user");
    if (hasPrompt) this.#enqueue(() => this.#slash({ name: "undo", args: "" }, "/undo"));
  };

  readonly loadOlder = (): void => {
    const { older, generation } = this.#state;
    if (!older || older.isLoading) return;
    const { before } = older;
    const mark = (isLoading: boolean) =>
      this.#update((state) => (state.older ? { ...state, older: { ...state.older, isLoading } } : state));
    mark(true);
    this.#try(async () => {
      try {
        const params = { session_id: this.#openId(), before, limit: OLDER_MESSAGES };
        const page = await this.#options.call("session.history", params);
        // Another session may be shown by now.
        this.#update((state) => (state.generation === generation ? showOlder(state, page) : state));
      } catch (error) {
        mark(false);
        throw error;
      }
    });
  };

  readonly fail = (error: unknown): void => this.#say("error", describeFailure(error));

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

  /** Keeps a prompt for later chats. It is optional, so a failure is ignored. */
  #keep(text: string): void {
    const { machine } = this.#options;
    if (machine) this.#keeping = Promise.all([this.#keeping, machine.keepPrompt(text).catch(() => {})]);
  }

  async #prompt(typed: string, mode?: SubmitMode, extras: PromptExtras = {}): Promise<void> {
    const { files = [], replaces } = extras;
    const text = await this.#attachments.promptOf(typed);
    if (text.trim() === "" && files.length === 0) return;
    const parts = files.map(({ url, name }) => ({ type: "file", data: url, filename: name }));
    const turnId = randomName();
    const ask = async () => {
      return this.#options.call("prompt.submit", {
        session_id: this.#openId(),
        text: parts.length === 0 ? text : [{ type: "text", text }, ...parts],
        client_turn_id: turnId,
        ...(replaces === undefined ? {} : { truncate_before_message_id: replaces, confirm_truncate: true }),
        ...(mode === undefined ? {} : { when_busy: mode }),
      });
    };
    const { status, turn_id: id } = await ask().catch(async (error: unknown) => {
      // The session was closed because it was idle.
      if (reasonOf(error) !== "not_live") throw error;
      await this.#session.reopen();
      return ask();
    });
    this.#attachments.sent();
    if (typeof id === "string") this.#update((state) => keepSent(state, id, files));
    if (status !== "steered" && status !== "redirected") return;
    const notification = { kind: "user" as const, text: cleanHead(text, MAX_OUTPUT), origin: "steer" };
    this.#update((state) => append(state, notification));
  }

  #command({ name, args }: TypedCommand, text: string): void {
    if (name === "quit" || name === "exit") return this.leave();
    if (name === "sessions" || (name === "resume" && args === "")) return this.openPicker("sessions");
    if (name === "model" && args === "") return this.openPicker("models");
    if (name === "stop" && this.#state.turn) return this.#interruptTurn();
    if (name === "keys" || name === "agents") return this.openViewer(name);
    if (name === "copy") return this.#enqueue(() => this.#copy());
    if (name === "export") return this.#enqueue(() => this.#export(args));
    if (name === "image") return this.#enqueue(() => this.#image(args));
    if (name === "steer" && args !== "") return this.#enqueue(() => this.#prompt(args, "steer"));
    if (name === "new") {
      const { session } = this.#state;
      const target = { kind: "new", ...(session ? { cwd: session.cwd } : {}) } as const;
      return this.#enqueue(() => this.open(args === "" ? target : { ...target, title: args }));
    }
    if (name === "resume") return this.#enqueue(() => this.open({ kind: "saved", ref: args }));
    this.#enqueue(() => this.#slash({ name, args }, text));
  }

  /** Does not wait for prompts or commands before it: a long one must not delay prompts. */
  async #shell(command: string): Promise<void> {
    await this.#opened.promise;
    const { call, now } = this.#options;
    this.#update(await runShell({ call, sessionId: this.#openId() }, command, now));
  }

  async #copy(): Promise<void> {
    this.#say("info", await copyAnswer(this.#state, this.#options.machine));
  }

  async #export(path: string): Promise<void> {
    const { call, machine } = this.#options;
    this.#say("info", await exportSession({ call, sessionId: this.#openId() }, machine, path));
  }

  /** `/image PATH`; text after the path is sent with the image. */
  async #image(args: string): Promise<void> {
    if (args === "") throw new Error("Name an image: /image PATH. Ctrl-V attaches the clipboard's image.");
    const rest = await this.#attachments.attach(args);
    if (rest !== "") await this.#prompt(rest);
  }

  /** Returns the id of the open session. */
  #openId(): string {
    const { sessionId } = this.#session;
    if (sessionId === undefined) throw new Error("No session is open. /new creates one.");
    return sessionId;
  }

  async #slash({ name, args }: TypedCommand, text: string): Promise<void> {
    const sessionId = this.#openId();
    const done = await runSlash(this.#options.call, { text, sessionId });
    if (done.sessionId !== undefined && done.sessionId !== sessionId) {
      await this.open({ kind: "saved", ref: done.sessionId });
    }
    if (name === "clear" || name === "reset") this.#update((state) => restart(state, []));
    if (name === "mode" && args !== "") this.#update((state) => withMode(state, args));
    if (name === "help" && args === "") return this.#help(done.output ?? "");
    if (done.output !== undefined) this.#say(done.isWarning === true ? "warning" : "info", done.output);
    const { prefill } = done;
    if (prefill !== undefined) this.#update((state) => fillComposer(state, { text: cleanText(prefill) }));
    if (done.prompt !== undefined) await this.#prompt(done.prompt, done.mode);
  }

  #help(commands: string): void {
    const text = [localHelp(), cleanText(commands)].join("\n\n");
    this.#update((state) => openViewer(state, [{ title: "help", text, isDiff: false }, KEYS_PAGE]));
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
    this.#queue = this.#queue.then(work).catch((error: unknown) => this.fail(error));
  }

  #try(work: () => Promise<void>): void {
    work().catch((error: unknown) => this.fail(error));
  }

  #say(level: "info" | "warning" | "error", text: string): void {
    this.#update((state) => notice(state, level, cleanHead(text, MAX_OUTPUT)));
  }

  #update(change: (state: ChatState) => ChatState): void {
    this.#options.store.update(change);
  }
}

/** Pages outside of a secure context have no `crypto.randomUUID`. */
function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
}

function withMode(state: ChatState, mode: string): ChatState {
  return { ...state, status: { ...state.status, mode: cleanLine(mode, 40) } };
}

/** Returns the picker of earlier prompts, the newest first. */
function historyPicker(prompts: readonly string[]): Picker {
  const rows = prompts.map((prompt, index) => ({ id: String(index), prompt }));
  return { kind: "history", isLoading: false, rows: rows.toReversed() };
}
