import { isMissing } from "../../../base/system/file-walk.ts";
import { isInside } from "../../../base/text.ts";
import { readlinkSync, realpathSync, type Stats } from "node:fs";
import { type FileHandle, readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { editDistance } from "../../../base/suggest.ts";
import { MovedError, openInside } from "../../../base/system/contained.ts";
import { openForeign, OwnFileError } from "../../../base/system/own-files.ts";
import { ToolError, nonEmptyText } from "../../tool/tool.ts";

/** As on Linux. */
export const MAX_PATH_CHARACTERS = 4_096;

/** Schema of the input `path` of tools that work on one file. */
export const filePath = nonEmptyText(
  MAX_PATH_CHARACTERS,
  "The file, relative to the workspace or absolute; ~ is the user's home.",
);

/** As much of a file as decides whether it is text. */
const BINARY_PROBE_BYTES = 8_192;

/** Returns whether a file with these first bytes is not text. */
export function isBinary(start: Uint8Array): boolean {
  return start.subarray(0, BINARY_PROBE_BYTES).includes(0);
}

/** As on Linux. */
const MAX_LINK_HOPS = 40;

/** Returns the absolute path of `path` in `cwd`; `~` and `~/...` refer to the user's home. Does not access the disk. */
export function resolvePath(path: string, cwd: string): string {
  if (path.includes("\0")) throw new ToolError("The path contains a NUL character; remove it.");
  if (path === "~") return homedir();
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : resolve(cwd, path);
}

/**
 * Returns the real target of a path: as {@link resolvePath}, with the links of its nearest existing ancestor resolved,
 * so that a link in the workspace cannot hide a target outside. A path inside `cwd` keeps the prefix `cwd`, even when
 * `cwd` itself is a link.
 */
export function realPath(path: string, cwd: string): string {
  const real = followLinks(resolvePath(path, cwd));
  const root = followLinks(cwd);
  return isInside(real, root) ? join(cwd, relative(root, real)) : real;
}

/**
 * Returns the given path and its real target, without duplicates, for the policy: a harmless name may lead to a
 * sensitive file, and a sensitive name to a file elsewhere.
 */
export function readsOf(path: string, cwd: string): readonly string[] {
  return [...new Set([realPath(path, cwd), resolvePath(path, cwd)])];
}

/** Returns the absolute directory of `path`. Throws ToolError when it is not a directory. */
export async function directoryOf(path: string, cwd: string): Promise<string> {
  const directory = resolvePath(path, cwd);
  const found = await statOf(directory);
  if (found?.isDirectory()) return directory;
  throw new ToolError(`${path} is ${found ? "not a directory" : "missing"}. Name an existing directory.`);
}

/**
 * The real paths that the policy decided about; undefined outside a run. A path inside `cwd` has the prefix `cwd`
 * there, even when `cwd` is a link.
 */
export function approvedOf({
  approvedPaths,
  cwd,
}: {
  readonly approvedPaths?: readonly string[] | undefined;
  readonly cwd: string;
}): readonly string[] | undefined {
  const root = followLinks(cwd);
  return approvedPaths?.map((path) => (isInside(path, cwd) ? join(root, relative(cwd, path)) : path));
}

/** Opens a file for reading: the file that was approved, whatever its name leads to by now. */
export function openApproved(
  path: string,
  context: { readonly approvedPaths?: readonly string[] | undefined; readonly cwd: string },
): Promise<FileHandle> {
  const approved = approvedOf(context);
  return approved === undefined ? openForeign(path) : openInside(path, approved);
}

/** Resolves to undefined when nothing exists at `path`; other errors become a ToolError. */
export async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toToolError(error, path);
  }
}

/** Describes a file system error for the model. */
export function toToolError(error: unknown, path: string): ToolError {
  if (error instanceof ToolError) return error;
  if (error instanceof OwnFileError || error instanceof MovedError) return new ToolError(error.message);
  const code = codeOf(error) ?? "unknown error";
  return new ToolError(`${path}: ${reasons[code] ?? `the file system reported ${code}`}.`);
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "no permission",
  EPERM: "no permission",
  ENOENT: "no such file exists",
  ENOTDIR: "a part of the path is a file, not a directory",
  EEXIST: "a part of the path is a file, not a directory",
  EISDIR: "it is a directory",
  ELOOP: "its symbolic links form a loop",
  ENAMETOOLONG: "the name is too long",
  ENOSPC: "the disk is full",
  EROFS: "the file system is read-only",
};

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** Synchronous because `inspect` is; a path has few segments, each of which is one system call. */
function followLinks(path: string, hops = 0): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const parent = dirname(path);
    if (parent === path) return path;
    if (!isMissing(error)) throw toToolError(error, path);
    const here = join(followLinks(parent, hops), basename(path));
    const target = linkTarget(here);
    if (target === undefined) return here;
    if (hops >= MAX_LINK_HOPS) throw new ToolError(`${path}: ${reasons["ELOOP"]}.`);
    // A link to a missing file: writing through it would create the target.
    return followLinks(resolve(dirname(here), target), hops + 1);
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    // EINVAL or ENOENT: not a link.
    return undefined;
  }
}

const MAX_ENTRIES = 2_000;
const MAX_NAMES = 3;

/** Returns a sentence with the most similar names beside `path`, or "". */
export async function suggestNames(path: string): Promise<string> {
  const wanted = basename(path).toLowerCase();
  const entries = await readdir(dirname(path)).catch(() => [] as string[]);
  const close = entries
    .slice(0, MAX_ENTRIES)
    .map((name) => ({ name, distance: distanceTo(wanted, name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)))
    .toSorted((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_NAMES);
  if (close.length === 0) return "";
  return ` Did you mean ${close.map(({ name }) => join(dirname(path), name)).join(" or ")}?`;
}

/** Returns the edit distance of two names; a name that contains the other counts as close. */
function distanceTo(wanted: string, name: string): number {
  if (Math.min(wanted.length, name.length) >= 3 && (name.includes(wanted) || wanted.includes(name))) return 1;
  return editDistance(wanted, name);
}
