/** Content of tool calls for clients: bounded texts, escaped output and file changes. Pure. */
import type { ToolCallContent, Diff } from "@agentclientprotocol/sdk/unstable";
import { parsePatch, type StructuredPatch } from "diff";
import type { FileChange } from "../../../generated/http/client/types.gen.ts";

/** The limit of the text of one tool call. */
export const MAX_TEXT_BYTES = 65_536;

interface Tail {
  readonly text: string;
  readonly omittedBytes: number;
}

/** Returns the tail of a text, at most `maxBytes` of UTF-8, cut between characters. */
export function tailOf(text: string, maxBytes: number): Tail {
  // A character has at least one byte, so a longer text need not be measured.
  if (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes) return { text, omittedBytes: 0 };
  const bytes = Buffer.from(text);
  let from = bytes.length - maxBytes;
  while (from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from++;
  return { text: bytes.subarray(from).toString(), omittedBytes: from };
}

/** Limits a text to its tail, with a first line about omitted bytes. `omittedBytes` were omitted before. */
export function bounded(text: string, omittedBytes = 0): string {
  const tail = tailOf(text, MAX_TEXT_BYTES);
  const omitted = tail.omittedBytes + omittedBytes;
  return omitted === 0 ? tail.text : `[${omitted} bytes omitted]\n${tail.text}`;
}

/** Returns the text as a code block. The fence is longer than any run of its character in the text. */
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

/** Returns content with our own markup. */
export function textContent(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

/** Returns tool output, shown verbatim. */
export function outputContent(text: string, omittedBytes = 0): ToolCallContent {
  return textContent(fenced(bounded(text, omittedBytes)));
}

const MAX_WHOLE_BYTES = 131_072;
const MAX_WHOLE_LINES = 4_000;
const MAX_HUNK_BYTES = 1_048_576;

/** Returns a change as a diff: the whole file if it is short, otherwise its hunks, otherwise a summary. */
export function diffContent(change: FileChange): ToolCallContent {
  return whole(change) ?? hunks(change) ?? summary(change);
}

function whole({ path, old_text: before, new_text: after }: FileChange): ToolCallContent | undefined {
  if (before === undefined || after === undefined) return undefined;
  if (!isShort(before) || !isShort(after)) return undefined;
  return { type: "diff", path, oldText: before, newText: after ?? "", ...deleted(after) };
}

/** Returns only the hunks with their context, marked as partial. */
function hunks({ path, diff, size = 0, new_text: after }: FileChange): ToolCallContent | undefined {
  if (size > MAX_HUNK_BYTES) return undefined;
  const patch = patchOf(diff);
  if (!patch || patch.hunks.length === 0) return undefined;
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const side = (mark: "-" | "+") =>
    lines.flatMap((line) => (line[0] === " " || line[0] === mark ? `${line.slice(1)}\n` : [])).join("");
  const meta = {
    partial: true,
    hunks: patch.hunks.map(({ oldStart, newStart }) => ({ oldLine: oldStart, newLine: newStart })),
  };
  const isNew = patch.hunks.every(({ oldLines }) => oldLines === 0);
  return {
    type: "diff",
    path,
    oldText: isNew ? null : side("-"),
    newText: after === null ? "" : side("+"),
    _meta: { ...deleted(after)._meta, ...meta },
  };
}

/** Returns the number of the first line that a change adds, replaces or removes after, or undefined if it is unknown. */
export function firstChangedLine({ diff }: FileChange): number | undefined {
  const [hunk] = patchOf(diff)?.hunks ?? [];
  if (!hunk) return undefined;
  const before = hunk.lines.findIndex((line) => !line.startsWith(" "));
  return Math.max(1, hunk.newStart + Math.max(0, before));
}

function summary({ path, diff, omitted, size }: FileChange): ToolCallContent {
  const bytes = size === undefined ? "" : ` (${size} bytes)`;
  if (omitted === "binary") return textContent(`${path}: binary file${bytes}; its content is not shown.`);
  const patch = patchOf(diff);
  const lines = patch?.hunks.flatMap((hunk) => hunk.lines) ?? [];
  const count = (mark: string) => lines.filter((line) => line.startsWith(mark)).length;
  const stats = patch && lines.length > 0 ? `: ${count("+")} lines added, ${count("-")} removed` : "";
  return textContent(`${path}: too large to show${bytes}${stats}.`);
}

/** Returns undefined for a truncated or invalid diff. */
function patchOf(diff: string): StructuredPatch | undefined {
  try {
    return parsePatch(diff)[0];
  } catch {
    return undefined;
  }
}

function isShort(text: string | null): boolean {
  if (text === null) return true;
  if (text.length > MAX_WHOLE_BYTES || Buffer.byteLength(text) > MAX_WHOLE_BYTES) return false;
  let ends = 0;
  for (let at = text.indexOf("\n"); at !== -1 && ends <= MAX_WHOLE_LINES; at = text.indexOf("\n", at + 1)) {
    ends++;
  }
  return ends <= MAX_WHOLE_LINES;
}

function deleted(after: string | null | undefined): Pick<Diff, "_meta"> {
  return after === null ? { _meta: { deleted: true } } : {};
}
