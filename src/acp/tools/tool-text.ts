/** Texts of tools as clients may show them: bounded, and never taken for markup. Pure. */
import type { ToolCallContent } from "@agentclientprotocol/sdk/unstable";

/** Longest text of one tool call. */
export const MAX_TEXT_BYTES = 65_536;

export interface Tail {
  readonly text: string;
  readonly omittedBytes: number;
}

/** The end of a text, where results stand; at most `maxBytes` of UTF-8, cut between characters. */
export function tailOf(text: string, maxBytes: number): Tail {
  // A character takes at least one byte: what is surely too much need not be counted.
  if (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes) return { text, omittedBytes: 0 };
  const bytes = Buffer.from(text);
  let from = bytes.length - maxBytes;
  while (from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from++;
  return { text: bytes.subarray(from).toString(), omittedBytes: from };
}

/** A text that was cut says so in its first line. `omittedBytes` are those that somebody left out before. */
export function bounded(text: string, omittedBytes = 0): string {
  const tail = tailOf(text, MAX_TEXT_BYTES);
  const omitted = tail.omittedBytes + omittedBytes;
  return omitted === 0 ? tail.text : `[${omitted} bytes omitted]\n${tail.text}`;
}

/** As code, whatever the text holds: the fence is longer than any run of its own character in it. */
export function fenced(text: string, info = ""): string {
  const ticks = fence(text, "`");
  const tildes = fence(text, "~");
  const used = tildes.length < ticks.length ? tildes : ticks;
  return `${used}${info}\n${text}${text.endsWith("\n") ? "" : "\n"}${used}`;
}

function fence(text: string, character: "`" | "~"): string {
  let longest = 0;
  for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, at)) {
    const from = at;
    while (text[at] === character) at++;
    longest = Math.max(longest, at - from);
  }
  return character.repeat(Math.max(3, longest + 1));
}

/** Markup that is ours. */
export function textContent(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

/** What a tool said, shown as it is. */
export function outputContent(text: string, omittedBytes = 0): ToolCallContent {
  return textContent(fenced(bounded(text, omittedBytes)));
}
