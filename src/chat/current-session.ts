/** Which session the chat is in, and how it comes into another one without losing an event on the way. */
import { reduceEvent, showSession, type OpenedSession } from "./state/reduce.ts";
import { reasonOf, type GatewayCall } from "./gateway.ts";
import type { GatewayEvent } from "../client/gateway.ts";
import type { WritableStore } from "./state/state.ts";

/** More events than this while a session is being opened mean that something else is wrong. */
const MAX_BUFFERED = 10_000;

/** Which session is wanted. */
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
  /** Events that came while a session was being opened: its first ones may be among them. */
  #buffered: GatewayEvent[] | undefined;
  /** The last event that what was read of the session has in it already. */
  #read = { sessionId: "", seq: 0 };

  constructor(options: CurrentSessionOptions) {
    this.#options = options;
  }

  /** Id of the session that is shown. */
  get sessionId(): string | undefined {
    return this.#options.store.get().session?.id;
  }

  take(event: GatewayEvent): void {
    if (this.#buffered && this.#buffered.length < MAX_BUFFERED) this.#buffered.push(event);
    else if (this.#isNews(event)) this.#options.store.update((state) => reduceEvent(state, event));
  }

  /** Leaves the session that was shown; the gateway tells of it no more, and its turn goes on. */
  async open(target: SessionTarget): Promise<void> {
    const before = this.sessionId;
    await this.#show(() => this.#enter(target));
    if (before === undefined || before === this.sessionId) return;
    await this.#options.call("session.detach", { session_id: before });
  }

  /** Reads the session anew, as after messages were taken back. */
  async reload(): Promise<void> {
    const { sessionId } = this;
    if (sessionId !== undefined) await this.#show(() => this.#resume(sessionId));
  }

  /** Opens the session again that was closed because nobody used it; the screen stays. */
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
      if (id === null) throw new Error("There is no session to go on with. Begin one: agentd chat.");
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
      // One that is open and has no prompt yet is not saved.
      return call("session.activate", { session_id: ref, cols: columns() }).catch(() => {
        throw error;
      });
    }
  }
}
