import type { FileChange } from "../../../../generated/http/client/types.gen.ts";
import { applyPatch, createTwoFilesPatch, parsePatch, type StructuredPatch } from "diff";
import { ToolError } from "../../tool/tool.ts";
import { headOf } from "../../../base/text.ts";

/** One file of a diff. `before` is undefined for a new file, `after` for a deleted one. */
export interface FileDiff {
  readonly path: string;
  readonly creates: boolean;
  readonly deletes: boolean;
  readonly patch: StructuredPatch;
}

const MAX_FILES = 100;
const MAX_SHOWN_CHARACTERS = 20_000;
const MAX_DIFF_MS = 1_000;

/** Parses a unified diff into its files, in order. Throws ToolError for invalid diffs and unsupported changes. */
export function parseDiff(text: string): readonly FileDiff[] {
  const patches = parse(text).filter((patch) => patch.hunks.length > 0 || patch.isGit);
  if (patches.length === 0)
    throw new ToolError("diff contains no hunks. It must be a unified diff with ---, +++ and @@.");
  if (patches.length > MAX_FILES) {
    throw new ToolError(`diff changes ${patches.length} files; the limit is ${MAX_FILES}. Split it.`);
  }
  const files = patches.map(toFileDiff);
  const duplicate = files.find(
    (file, index) => files.findIndex((other) => other.path === file.path) !== index,
  );
  if (duplicate)
    throw new ToolError(`diff names ${duplicate.path} twice. Put all of its hunks under one header.`);
  return files;
}

/** Returns `before` with the file's hunks applied. Throws ToolError when one does not fit. */
export function applyFileDiff(before: string, file: FileDiff): string {
  const after = applyPatch(before, file.patch);
  if (after !== false) return after;
  const lines = file.patch.hunks.map((hunk) => hunk.oldStart).join(", ");
  throw new ToolError(
    `The diff of ${file.path} does not fit the file (hunks at lines ${lines}). Read it again; context must match exactly.`,
  );
}

/** Returns the change as a unified diff of at most 20 000 characters. */
export function showDiff(path: string, before: string, after: string): string {
  const diff = createTwoFilesPatch(path, path, before, after, "", "", {
    context: 3,
    timeout: MAX_DIFF_MS,
    headerOptions: { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
  });
  if (diff === undefined) return `${path}: changed in too many places to show.`;
  if (diff.length <= MAX_SHOWN_CHARACTERS) return diff;
  const shown = headOf(diff, MAX_SHOWN_CHARACTERS);
  return `${shown}\n[... ${diff.length - shown.length} characters of the diff cut ...]`;
}

/** Limit of a file's texts, before and after, that people see whole. */
const MAX_TEXT_CHARACTERS = 131_072;

/** For larger files people see only the size. */
export const MAX_SHOWN_BYTES = 1_048_576;

/** Returns a change for people; an undefined text means that the file does not exist. Omits long texts. */
export function fileChange(path: string, before: string | undefined, after: string | undefined): FileChange {
  const size = Math.max(Buffer.byteLength(before ?? ""), Buffer.byteLength(after ?? ""));
  if (size > MAX_SHOWN_BYTES) return { path, diff: "", omitted: "large", size };
  const diff = showDiff(path, before ?? "", after ?? "");
  const isLong = Math.max(before?.length ?? 0, after?.length ?? 0) > MAX_TEXT_CHARACTERS;
  return isLong ? { path, diff, size } : { path, old_text: before ?? null, new_text: after ?? null, diff };
}

function parse(text: string): readonly StructuredPatch[] {
  try {
    return parsePatch(text);
  } catch (error) {
    throw new ToolError(
      `diff is not a unified diff: ${error instanceof Error ? error.message : "unreadable"}.`,
    );
  }
}

function toFileDiff(patch: StructuredPatch): FileDiff {
  if (patch.isRename || patch.isCopy) {
    throw new ToolError("diff renames or copies a file; move it with the terminal, then patch it.");
  }
  if (patch.hunks.length === 0)
    throw new ToolError("diff has a file without hunks; only text changes can be applied.");
  const before = nameOf(patch.oldFileName, "a/");
  const after = nameOf(patch.newFileName, "b/");
  const path = after ?? before;
  if (path === undefined) throw new ToolError("diff has hunks without a file name. Give --- and +++ lines.");
  if (before !== undefined && after !== undefined && before !== after) {
    throw new ToolError(
      `diff changes ${before} into ${after}; move the file with the terminal, then patch it.`,
    );
  }
  return { path, creates: before === undefined, deletes: after === undefined, patch };
}

function nameOf(name: string | undefined, prefix: string): string | undefined {
  if (name === undefined || name === "" || name === "/dev/null") return undefined;
  return name.startsWith(prefix) ? name.slice(prefix.length) : name;
}
