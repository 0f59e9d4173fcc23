import type { NumberedMessage } from "../session/transcript.ts";
import { textOf, type Message } from "../message.ts";
import { headOf, tailOf } from "../../base/text.ts";

/** What is summed up and what stays as it is. */
export interface CompressionPlan {
  readonly older: readonly NumberedMessage[];
  readonly kept: readonly NumberedMessage[];
}

/** Fewer messages than this are not worth a summary. */
const MIN_OLDER = 2;
/** Of one message, in what the summary is made from. */
const MAX_QUOTED_CHARACTERS = 4_000;
/** Room for the word that something was left out. */
const MAX_GAP_CHARACTERS = 64;

/**
 * Where to cut a conversation so that at least `keep` messages stay, and a tool call is never parted from its answers.
 * The cut is put before a prompt if one is near, else between two steps of a turn. Undefined when too little would go.
 */
export function planCompression(
  context: readonly NumberedMessage[],
  keep: number,
): CompressionPlan | undefined {
  const latest = Math.max(0, context.length - keep);
  const cuts = cutsUpTo(context, latest);
  const prompts = cuts.filter((at) => context[at]?.message.role === "user");
  // A turn is better kept whole, unless that would leave most of what is to go.
  const cut = prompts.findLast((at) => at >= latest / 2) ?? cuts.at(-1);
  if (cut === undefined || cut < MIN_OLDER) return undefined;
  return { older: context.slice(0, cut), kept: context.slice(cut) };
}

/** Places before which a conversation may begin: a tool's answer is not one. */
function cutsUpTo(context: readonly NumberedMessage[], latest: number): readonly number[] {
  const places = context.slice(0, latest + 1).map(({ message }, at) => (message.role === "tool" ? -1 : at));
  return places.filter((at) => at > 0 && at < context.length);
}

/** The older messages as text for the model that sums them up, at most `maxCharacters`: the middle goes first. */
export function quoteForSummary(older: readonly NumberedMessage[], maxCharacters: number): string {
  const lines = older.map(({ message }) => quote(message));
  const whole = lines.join("\n\n");
  if (whole.length <= maxCharacters) return whole;
  const half = Math.max(0, Math.floor((maxCharacters - MAX_GAP_CHARACTERS) / 2));
  const gap = `\n\n[... ${whole.length - 2 * half} characters left out ...]\n\n`;
  return `${headOf(whole, half)}${gap}${tailOf(whole, half)}`;
}

function quote(message: Message): string {
  if (message.role === "assistant") {
    const calls = message.parts.flatMap((part) =>
      part.type === "tool_call"
        ? [`(called ${part.tool} with ${clip(JSON.stringify(part.input) ?? "")})`]
        : [],
    );
    return [`ASSISTANT: ${clip(textOf(message))}`, ...calls].join("\n");
  }
  if (message.role === "tool") return `TOOL ${message.tool} (${message.status}): ${clip(message.text)}`;
  const files = message.role === "user" ? (message.attachments ?? []) : [];
  const names = files.map(({ type, mediaType, name }) => `(${type} ${name ?? mediaType})`);
  return [`${message.role.toUpperCase()}: ${clip(message.text)}`, ...names].join("\n");
}

function clip(text: string): string {
  if (text.length <= MAX_QUOTED_CHARACTERS) return text;
  const half = MAX_QUOTED_CHARACTERS / 2;
  return `${headOf(text, half)} [...] ${tailOf(text, half)}`;
}
