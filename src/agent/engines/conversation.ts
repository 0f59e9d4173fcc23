import type { EngineTurn } from "../engine.ts";
import type { Message } from "../message.ts";
import { contextTokens, type TokenCount } from "./context-size.ts";

/** The messages of a turn at work, and when they have to become fewer. Both engines keep theirs here. */
export class Conversation {
  readonly #turn: EngineTurn;
  #messages: readonly Message[];
  #counted: TokenCount | undefined;
  /** How many messages there were when the last compaction was over: without new ones another is of no use. */
  #compactedAt: number | undefined;
  #hasOverflowed = false;

  constructor(turn: EngineTurn) {
    this.#turn = turn;
    this.#messages = turn.messages;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  add(messages: readonly Message[]): void {
    if (messages.length > 0) this.#messages = [...this.#messages, ...messages];
  }

  /** What the provider counted for all messages up to here. Zero tells nothing: some servers do not count. */
  count(tokens: number): void {
    if (tokens > 0) this.#counted = { tokens, messages: this.#messages.length };
  }

  get isNearLimit(): boolean {
    const { compactAtTokens, ports } = this.#turn;
    if (compactAtTokens === undefined || !ports.compact) return false;
    if (this.#compactedAt === this.#messages.length) return false;
    return contextTokens(this.#turn, this.#messages, this.#counted) > compactAtTokens;
  }

  /** Before a call, with all messages saved. Rejects when the turn was stopped meanwhile. */
  async fit(): Promise<void> {
    if (this.isNearLimit) await this.#compact("near_limit", []);
  }

  /**
   * After a refused call, once a turn; `unsaved` are the messages at the end that only this conversation has. True when the
   * call is worth another try. Rejects when the turn was stopped meanwhile.
   */
  async shrink(unsaved: readonly Message[]): Promise<boolean> {
    if (this.#hasOverflowed) return false;
    this.#hasOverflowed = true;
    return this.#compact("overflow", unsaved);
  }

  async #compact(reason: "near_limit" | "overflow", unsaved: readonly Message[]): Promise<boolean> {
    const saved = unsaved.length > 0 ? this.#messages.slice(0, -unsaved.length) : this.#messages;
    const messages = await this.#turn.ports.compact?.(reason, saved);
    if (messages) {
      this.#messages = [...messages, ...unsaved];
      this.#counted = undefined;
    }
    this.#compactedAt = this.#messages.length;
    return messages !== undefined;
  }
}

/** Why the calls of an answer that ended so are not made; undefined when they are. */
export function unmadeText(finish: string | undefined): string | undefined {
  if (finish === "length") {
    return (
      "This call was not made: the answer was cut by the output limit, so its arguments may be incomplete. " +
      "Make the call again, with less text before it or in smaller parts."
    );
  }
  return finish === "refusal"
    ? "This call was not made: a content filter of the provider ended the answer."
    : undefined;
}
