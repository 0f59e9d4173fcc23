import { rm } from "node:fs/promises";
import type { FileChange } from "../../../../generated/http/client/types.gen.ts";
import { readForeign } from "../../../base/system/own-files.ts";
import {
  closedObject,
  flag,
  freeText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolOutput,
  type ToolPreviewContext,
} from "../../tool/tool.ts";
import { editedText, type Editing, stageText } from "./edited-file.ts";
import { applyFileDiff, fileChange, type FileDiff, parseDiff, showDiff } from "./file-diff.ts";
import { filePath, readsOf, realPath, statOf, suggestNames, toToolError, approvedOf } from "./paths.ts";

interface PatchInput {
  readonly path?: string;
  readonly old?: string;
  readonly new?: string;
  readonly replace_all?: boolean;
  readonly diff?: string;
}

/** One file before and after; undefined when it does not exist. */
interface Change {
  readonly name: string;
  readonly target: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

const MAX_BYTES = 5_242_880;
const MAX_SHOWN_CHARACTERS = 40_000;

/** The tool that changes parts of files. */
export function createPatch(): Tool {
  return defineTool<PatchInput>({
    name: "patch",
    toolset: "files",
    kind: "edit",
    description:
      "Changes parts of text files; give either path, old and new for one exact replacement, or diff. Writes " +
      `nothing unless everything fits. Files up to ${MAX_BYTES} bytes. Returns the resulting diff.`,
    parameters: closedObject({
      path: filePath,
      old: freeText(
        MAX_BYTES,
        "The exact text to replace, with spaces and line breaks. Must occur exactly once.",
      ),
      new: freeText(MAX_BYTES, "The replacement; empty to delete the text."),
      replace_all: flag("Replace every occurrence of old. Default false."),
      diff: freeText(
        MAX_BYTES,
        "A unified diff over one or more files; /dev/null creates or deletes a file.",
      ),
    }),
    inspect: (input, { cwd }) => {
      const names =
        input.diff === undefined ? [input.path ?? "."] : parseDiff(input.diff).map((file) => file.path);
      const writes = names.flatMap((name) => readsOf(name, cwd));
      return { kind: "file", title: `Patch: ${names.join(", ").slice(0, 200)}`, writes };
    },
    preview,
    run,
  });
}

async function run(input: PatchInput, context: ToolContext): Promise<ToolOutput> {
  const changes = await plan(input, context);
  context.signal.throwIfAborted();
  await applyAll(changes, context);
  const shown = changes
    .map(({ name, before, after }) => showDiff(name, before ?? "", after ?? ""))
    .join("\n");
  const cut = shown.length > MAX_SHOWN_CHARACTERS ? "\n[... the rest of the diff is cut ...]" : "";
  return {
    text: `Changed ${changes.map(({ name }) => name).join(", ")}.\n${shown.slice(0, MAX_SHOWN_CHARACTERS)}${cut}`,
    changes: changes.map(shownChange),
  };
}

async function preview(input: PatchInput, context: ToolPreviewContext): Promise<readonly FileChange[]> {
  return (await plan(input, context)).map(shownChange);
}

const shownChange = ({ target, before, after }: Change) => fileChange(target, before, after);

async function plan(input: PatchInput, context: ToolPreviewContext): Promise<readonly Change[]> {
  const { path, old, new: replacement, diff } = input;
  if (diff !== undefined) {
    if (path !== undefined || old !== undefined || replacement !== undefined) {
      throw new ToolError("Give either diff, or path with old and new, not both.");
    }
    return planDiff(parseDiff(diff), context);
  }
  if (path === undefined || old === undefined || replacement === undefined) {
    throw new ToolError("Give path, old and new, or diff.");
  }
  const target = realPath(path, context.cwd);
  const before = await readText(target, path, context);
  const after = replaceExactly(before, { old, new: replacement, all: input.replace_all === true });
  return [{ name: path, target, before, after }];
}

async function planDiff(files: readonly FileDiff[], context: ToolPreviewContext): Promise<readonly Change[]> {
  const changes: Change[] = [];
  for (const file of files) {
    const target = realPath(file.path, context.cwd);
    if (changes.some((other) => other.target === target)) {
      throw new ToolError(
        `diff changes ${file.path} twice, by different names. Put its hunks under one header.`,
      );
    }
    const exists = (await statOf(target)) !== undefined;
    if (file.creates && exists) throw new ToolError(`diff creates ${file.path}, but it already exists.`);
    const before = file.creates ? "" : await readText(target, file.path, context);
    const after = applyFileDiff(before, file);
    if (file.deletes && after !== "") {
      throw new ToolError(
        `diff deletes ${file.path}, but not all of its lines. Delete all of them, or none.`,
      );
    }
    changes.push({
      name: file.path,
      target,
      before: file.creates ? undefined : before,
      after: file.deletes ? undefined : after,
    });
  }
  return changes;
}

/**
 * Applies all changes or none: writes every file beside its target first, and undoes earlier steps when a later one
 * fails.
 */
async function applyAll(changes: readonly Change[], context: ToolContext): Promise<void> {
  const { files, signal } = context;
  const approved = approvedOf(context);
  const editing = { signal, ...(files ? { files } : {}), ...(approved ? { approved } : {}) };
  const staged: { readonly change: Change; commit(): Promise<void>; discard(): Promise<void> }[] = [];
  const done: Change[] = [];
  try {
    for (const change of changes) staged.push({ change, ...(await stage(change, editing)) });
    signal.throwIfAborted();
    for (const { change, commit } of staged) {
      await commit();
      done.push(change);
    }
  } catch (error) {
    for (const { discard } of staged) await discard();
    for (const change of done.toReversed()) await undo(change, { ...editing, signal: NEVER });
    throw error;
  }
}

async function stage(
  { target, after }: Change,
  editing: Editing,
): Promise<{ commit(): Promise<void>; discard(): Promise<void> }> {
  if (after === undefined) return { commit: () => remove(target), discard: async () => {} };
  if (Buffer.byteLength(after) > MAX_BYTES) throw new ToolError(`${target} would exceed ${MAX_BYTES} bytes.`);
  const { commit, discard } = await stageText(target, after, editing);
  return { commit, discard };
}

/** Undoing continues after the call was aborted. */
const NEVER = new AbortController().signal;

async function undo({ target, before }: Change, editing: Editing): Promise<void> {
  if (before === undefined) return remove(target);
  const staged = await stageText(target, before, editing);
  await staged.commit();
}

async function remove(target: string): Promise<void> {
  await rm(target).catch((error: unknown) => {
    throw toToolError(error, target);
  });
}

async function readText(target: string, name: string, context: ToolPreviewContext): Promise<string> {
  const found = await statOf(target);
  if (!found) throw new ToolError(`${name}: no such file exists.${await suggestNames(target)}`);
  if (!found.isFile()) throw new ToolError(`${name} is not a regular file.`);
  if (found.size > MAX_BYTES)
    throw new ToolError(`${name} has ${found.size} bytes; the limit of patch is ${MAX_BYTES}.`);
  const bytes = await readForeign(target).catch((error: unknown) => {
    throw toToolError(error, name);
  });
  const edited = await editedText(target, found.size, context);
  if (edited !== undefined) return edited;
  if (bytes.includes(0)) throw new ToolError(`${name} is a binary file.`);
  try {
    // Fatal, and keeps the byte order mark: everything but the change must stay identical.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ToolError(`${name} is not UTF-8 text; change it with the terminal.`);
  }
}

interface Replacement {
  readonly old: string;
  readonly new: string;
  readonly all: boolean;
}

const MAX_LISTED_LINES = 10;

/**
 * Replaces `old` by `new` in `text`. Throws ToolError when `old` is missing, or occurs more than once without `all`. In
 * a file with CRLF line ends, `old` and `new` may use plain line feeds.
 */
function replaceExactly(text: string, replacement: Replacement): string {
  if (replacement.old === "") throw new ToolError("old is empty. Use write_file for a new file.");
  if (replacement.old === replacement.new)
    throw new ToolError("old and new are the same: nothing would change.");
  const edit = text.includes(replacement.old) ? replacement : withCarriageReturns(text, replacement);
  const offsets = findAll(text, edit.old);
  if (offsets.length === 0)
    throw new ToolError(`old was not found in the file.${similarLines(text, edit.old)}`);
  if (offsets.length > 1 && !edit.all) {
    throw new ToolError(
      `old occurs ${offsets.length} times, at ${listLines(text, offsets)}. Extend it so that it occurs once, ` +
        "or set replace_all.",
    );
  }
  return text.split(edit.old).join(edit.new);
}

function withCarriageReturns(text: string, replacement: Replacement): Replacement {
  if (!text.includes("\r\n")) return replacement;
  const convert = (part: string) => part.replace(/\r?\n/g, "\r\n");
  return { ...replacement, old: convert(replacement.old), new: convert(replacement.new) };
}

/** Occurrences may overlap: "aa" occurs twice in "aaa", and either could be meant. */
function findAll(text: string, part: string): readonly number[] {
  const offsets: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) offsets.push(at);
  return offsets;
}

function listLines(text: string, offsets: readonly number[]): string {
  const numbers = offsets
    .slice(0, MAX_LISTED_LINES)
    .map((offset) => text.slice(0, offset).split("\n").length);
  const more = offsets.length > MAX_LISTED_LINES ? " and more" : "";
  return `lines ${[...new Set(numbers)].join(", ")}${more}`;
}

/** Names lines that equal the first line of `part` but for spaces, the usual reason for a miss. */
function similarLines(text: string, part: string): string {
  const bare = (line: string) => line.replace(/\s+/g, "");
  const first = part
    .split("\n")
    .map(bare)
    .find((line) => line !== "");
  if (first === undefined) return "";
  const numbers = text.split("\n").flatMap((line, index) => (bare(line) === first ? [index + 1] : []));
  if (numbers.length === 0) return " Read the file again and copy the text exactly.";
  const listed = numbers.slice(0, MAX_LISTED_LINES).join(", ");
  return ` Its first line resembles line ${listed}: compare the spaces and the lines that follow.`;
}
