import { isInside } from "../../../base/paths.ts";
import { readlinkSync, realpathSync, type Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { OwnFileError } from "../../../base/system/own-files.ts";
import { ToolError } from "../../tool/tool.ts";

/** What Linux allows as well. */
const MAX_LINK_HOPS = 40;

/** The absolute path that `path` means in `cwd`; `~` and `~/...` are the user's home. Nothing is looked up. */
export function resolvePath(path: string, cwd: string): string {
  if (path.includes("\0")) throw new ToolError("The path holds a NUL character; remove it.");
  if (path === "~") return homedir();
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : resolve(cwd, path);
}

/**
 * Where a path really leads: as {@link resolvePath}, with the symbolic links of its nearest existing ancestor followed,
 * so that a link inside the workspace cannot hide a target outside. What lies in `cwd` is told in the terms of `cwd`,
 * even when that is itself reached by a link.
 */
export function realPath(path: string, cwd: string): string {
  const real = followLinks(resolvePath(path, cwd));
  const root = followLinks(cwd);
  return isInside(real, root) ? join(cwd, relative(root, real)) : real;
}

/**
 * The path as the model gave it and where it really leads, each once, for the policy: a harmless name may lead to a
 * sensitive file, and a sensitive name to a file elsewhere.
 */
export function readsOf(path: string, cwd: string): readonly string[] {
  return [...new Set([realPath(path, cwd), resolvePath(path, cwd)])];
}

/** The directory that `path` means, as an absolute path. Throws ToolError when it is not one. */
export async function directoryOf(path: string, cwd: string): Promise<string> {
  const directory = resolvePath(path, cwd);
  const found = await statOf(directory);
  if (found?.isDirectory()) return directory;
  throw new ToolError(`${path} is ${found ? "not a directory" : "missing"}. Name an existing directory.`);
}

/** Undefined when there is nothing at `path`; errors such as missing rights become a ToolError. */
export async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toToolError(error, path);
  }
}

/** What the file system said, in words for the model. */
export function toToolError(error: unknown, path: string): ToolError {
  if (error instanceof ToolError) return error;
  if (error instanceof OwnFileError) return new ToolError(error.message);
  const code = codeOf(error) ?? "unknown error";
  return new ToolError(`${path}: ${reasons[code] ?? `the file system refused (${code})`}.`);
}

export function isMissing(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "no permission",
  EPERM: "no permission",
  ENOENT: "there is no such file",
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

/** Synchronous because a tool's inspect is; a path has few segments, and each is one call to the system. */
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
    // A link to what does not exist yet: writing through it would create the file over there.
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
