/** The session of the chat. Switches sessions without losing an event. */
import { reduceEvent, showSession, type OpenedSession } from "./reduce.ts";
import { reasonOf, type GatewayCall } from "./gateway.ts";
import type { GatewayEvent } from "../gateway.ts";
import type { WritableStore } from "./state.ts";

/** Most events that are buffered while a session opens. */
const MAX_BUFFERED = 10_000;

/** The session to open. */
export type SessionTarget =
  | { readonly kind: "new"; readonly cwd?: string; readonly model?: string; readonly title?: string }
  /** `ref`: an id or an exact title. */
  | { readonly kind: "saved"; readonly ref: string }
  | { readonly kind: "recent" };

interface CurrentSessionOptions {
  readonly call: GatewayCall;
  readonly store: WritableStore;
  readonly now: () => number;
  /** Columns of the terminal. */
  readonly columns: () => number;
}

export class CurrentSession {
  readonly #options: CurrentSessionOptions;
  /** Events received while a session opens, which may include its first ones. */
  #buffered: GatewayEvent[] | undefined;
  /** The last event that the loaded session already includes. */
  #read = { sessionId: "", seq: 0 };

  constructor(options: CurrentSessionOptions) {
    this.#options = options;
  }

  /** Id of the shown session. */
  get sessionId(): string | undefined {
    return this.#options.store.get().session?.id;
  }

  take(event: GatewayEvent): void {
    if (this.#buffered && this.#buffered.length < MAX_BUFFERED) this.#buffered.push(event);
    else if (this.#isNews(event)) this.#options.store.update((state) => reduceEvent(state, event));
  }

  /** Opens a session and detaches from the previous one, whose turn continues. */
  async open(target: SessionTarget): Promise<void> {
    const before = this.sessionId;
    await this.#show(() => this.#enter(target));
    if (before === undefined || before === this.sessionId) return;
    await this.#options.call("session.detach", { session_id: before });
  }

  /** Reloads the session, such as after an undo. */
  async reload(): Promise<void> {
    const { sessionId } = this;
    if (sessionId !== undefined) await this.#show(() => this.#resume(sessionId));
  }

  /** Reopens a session that was closed because it was idle; the screen stays. */
  async reopen(): Promise<void> {
    const { call } = this.#options;
    if (this.sessionId !== undefined)
      await call("session.resume", { session_id: this.sessionId, omit_messages: true });
  }

  async #show(enter: () => Promise<OpenedSession>): Promise<void> {
    const { store, now } = this.#options;
    this.#buffered = [];
    try {
      const opened = await enter();
      this.#read = { sessionId: opened.session_id, seq: opened.latest_seq ?? 0 };
      store.update((state) => showSession(state, opened, now()));
    } finally {
      const buffered = this.#buffered;
      this.#buffered = undefined;
      for (const event of buffered) this.take(event);
    }
  }

  #isNews({ session_id: id, seq }: GatewayEvent): boolean {
    return seq === undefined || id !== this.#read.sessionId || seq > this.#read.seq;
  }

  async #enter(target: SessionTarget): Promise<OpenedSession> {
    const { call, columns } = this.#options;
    if (target.kind === "saved") return this.#resume(target.ref);
    if (target.kind === "recent") {
      const { session_id: id } = await call("session.most_recent", {});
      if (id === null) throw new Error("No session to continue. Start one with agentd chat.");
      return this.#resume(id);
    }
    const { cwd, model, title } = target;
    return call("session.create", {
      cols: columns(),
      ...(cwd === undefined ? {} : { cwd }),
      ...(model === undefined ? {} : { model }),
      ...(title === undefined ? {} : { title }),
    });
  }

  async #resume(ref: string): Promise<OpenedSession> {
    const { call, columns } = this.#options;
    try {
      return await call("session.resume", { session_id: ref, cols: columns() });
    } catch (error) {
      if (reasonOf(error) !== "stored_session_not_found") throw error;
      // An open session without a prompt is not saved yet.
      return call("session.activate", { session_id: ref, cols: columns() }).catch(() => {
        throw error;
      });
    }
  }
}
