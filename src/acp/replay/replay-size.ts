/** No update of a replay is longer than what a slow client takes in one piece. Pure. */
import type { SessionUpdate, ToolCall, ToolCallContent } from "@agentclientprotocol/sdk/unstable";
import { textContent } from "../tools/tool-text.ts";

/** With room for the rest of its line. */
const MAX_BYTES = 253_952;

type Call = ToolCall & { readonly sessionUpdate: "tool_call" };

/** What is too long goes, in this order: the arguments, then contents, the longest first. */
export function fitting(update: Call): SessionUpdate {
  let left = bytesOf(update) - MAX_BYTES;
  if (left <= 0) return update;
  const { rawInput, content = [], ...rest } = update;
  left -= bytesOf(rawInput ?? null);
  const sized = content.map((each, index) => ({ index, bytes: bytesOf(each) }));
  const gone = new Set<number>();
  for (const { index, bytes } of sized.toSorted((a, b) => b.bytes - a.bytes)) {
    if (left <= 0) break;
    gone.add(index);
    left -= bytes;
  }
  return { ...rest, content: content.map((each, index) => (gone.has(index) ? named(each) : each)) };
}

function named(content: ToolCallContent): ToolCallContent {
  return textContent(
    content.type === "diff"
      ? `${content.path}: the change is too large to show again.`
      : "The output is too large to show again.",
  );
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
