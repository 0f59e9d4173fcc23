import type { EngineTurn } from "../engine.ts";
import type { Message } from "../message.ts";

/** The messages of a running turn, and when they need compression. Both engines use it. */
export class Conversation {
  readonly #turn: EngineTurn;
  #messages: readonly Message[];
  #counted: TokenCount | undefined;
  /** Number of messages after the last compression: without new ones another is useless. */
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

  /** Records the provider's count of all messages so far. Ignores zero: some servers do not count. */
  count(tokens: number): void {
    if (tokens > 0) this.#counted = { tokens, messages: this.#messages.length };
  }

  get isNearLimit(): boolean {
    const { compactAtTokens, ports } = this.#turn;
    if (compactAtTokens === undefined || !ports.compact) return false;
    if (this.#compactedAt === this.#messages.length) return false;
    return contextTokens(this.#turn, this.#messages, this.#counted) > compactAtTokens;
  }

  /** Compresses before a call, with all messages saved. Rejects when the turn was stopped. */
  async fit(): Promise<void> {
    if (this.isNearLimit) await this.#compact("near_limit", []);
  }

  /**
   * Compresses after a refused call, once per turn. `unsaved` are the last messages, which only this conversation has.
   * Resolves to true when the call should be repeated. Rejects when the turn was stopped.
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

const CHARACTERS_A_TOKEN = 4;
/** Typical count for an image of ordinary size. */
const IMAGE_TOKENS = 1_500;
/** Role and delimiters of a message. */
const MESSAGE_TOKENS = 4;

/** Estimates the tokens of messages at four characters each: accurate enough to decide whether they fit. */
export function estimateTokens(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + MESSAGE_TOKENS + tokensOf(message), 0);
}

/** A provider's token count and the number of messages it covers. */
interface TokenCount {
  readonly tokens: number;
  readonly messages: number;
}

/** Returns the size of the next call's context: the provider's count where known, plus an estimate for the rest. */
export function contextTokens(
  { instructions }: Pick<EngineTurn, "instructions">,
  messages: readonly Message[],
  counted?: TokenCount,
): number {
  if (counted) return counted.tokens + estimateTokens(messages.slice(counted.messages));
  return Math.ceil(instructions.length / CHARACTERS_A_TOKEN) + estimateTokens(messages);
}

function tokensOf(message: Message): number {
  if (message.role === "assistant") {
    const characters = message.parts.reduce(
      (sum, part) =>
        sum + (part.type === "tool_call" ? (JSON.stringify(part.input)?.length ?? 0) : part.text.length),
      0,
    );
    return Math.ceil(characters / CHARACTERS_A_TOKEN);
  }
  const files = message.role === "user" ? (message.attachments ?? []) : [];
  const attached = files.reduce(
    (sum, { type, data }) =>
      sum + (type === "image" ? IMAGE_TOKENS : (data.length * 3) / 4 / CHARACTERS_A_TOKEN),
    0,
  );
  return Math.ceil(message.text.length / CHARACTERS_A_TOKEN + attached);
}
