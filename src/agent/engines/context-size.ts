import type { EngineTurn } from "../engine.ts";
import type { Message } from "../message.ts";

const CHARACTERS_A_TOKEN = 4;
/** About what providers count for a picture of ordinary size. */
const IMAGE_TOKENS = 1_500;
/** Roles and marks around a message. */
const MESSAGE_TOKENS = 4;

/** About how many tokens the messages are, at four characters each: near enough to decide whether they fit. */
export function estimateTokens(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + MESSAGE_TOKENS + tokensOf(message), 0);
}

/** What a provider counted, and how many of the messages it counted. */
export interface TokenCount {
  readonly tokens: number;
  readonly messages: number;
}

/** About how long the context of the next call is: the provider's own count where there is one, an estimate else. */
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
