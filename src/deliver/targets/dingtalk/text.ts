/** A text as DingTalk takes it: a Markdown with a title for the list of chats, or plain. Pure. */
import { shorten } from "../../../base/text.ts";
import type { Message } from "../../message.ts";
import { renderParts, type Part } from "../../text/parts.ts";
import { cleanText } from "../../text/text.ts";

export type DingtalkText =
  | { readonly kind: "markdown"; readonly title: string; readonly text: string }
  | { readonly kind: "text"; readonly content: string };

const TITLE_CHARACTERS = 40;
/** Of a part, for its title. */
const BEGINNING_UNITS = 400;

export interface DingtalkTextOptions {
  /** Bytes of a part before it is written as JSON. */
  readonly limit: number;
  readonly maxParts: number;
  /** Whether what is sent of a part keeps DingTalk's limit. */
  readonly fits: (text: DingtalkText) => boolean;
}

/**
 * The messages that a text makes. `deliver_extra.msgtype: text` sends it plain; `deliver_extra.title` is the title, else
 * the beginning of each part is.
 */
export function dingtalkTexts(
  { text, extra }: Message,
  { limit, maxParts, fits }: DingtalkTextOptions,
): readonly DingtalkText[] {
  const isPlain = extra["msgtype"] === "text";
  const title = typeof extra["title"] === "string" ? cleanText(extra["title"]) : undefined;
  // JSON writes quotes, backslashes and line feeds as two bytes: half is always enough.
  for (const bytes of [limit, Math.floor(limit / 2)]) {
    const format = isPlain ? "plain" : "commonmark";
    const parts = renderParts(text, { format, limit: bytes, unit: "bytes", maxParts });
    const texts = parts.map((part) => toText(part, { isPlain, title }));
    if (bytes < limit || texts.every(fits)) return texts;
  }
  return [];
}

function toText(
  part: Part,
  { isPlain, title }: { readonly isPlain: boolean; readonly title: string | undefined },
): DingtalkText {
  if (isPlain) return { kind: "text", content: part.text };
  return {
    kind: "markdown",
    title: titleOf(title ?? "") || titleOf(beginningOf(part)) || "agentd",
    text: part.text,
  };
}

/** Without its marks. */
function beginningOf({ text }: Part): string {
  const [plain] = renderParts(text.slice(0, BEGINNING_UNITS), {
    format: "plain",
    limit: Number.POSITIVE_INFINITY,
    unit: "utf16",
  });
  return plain?.text ?? "";
}

function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return shorten(line.trim(), TITLE_CHARACTERS);
}
