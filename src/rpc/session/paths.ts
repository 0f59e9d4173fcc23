/** Folders and paths that hosts name. Touches the machine, and only reads. */
import { readFile, realpath, stat, opendir } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { isInside } from "../../base/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcContext } from "../deps.ts";
import { hasScope } from "../connection/peer.ts";
import { fileURLToPath } from "node:url";
import type { CompletionItem } from "../../../generated/gateway/types/types.gen.ts";

/** Returns the git branch of a folder, if it has one. */
export async function branchOf(cwd: string): Promise<string | undefined> {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const head = await readFile(join(folder, ".git", "HEAD"), "utf8").catch(() => undefined);
    if (head !== undefined) return /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
    if (dirname(folder) === folder) return undefined;
  }
}

/**
 * Resolves the folder that a host names for a session. Undefined when none is named or it does not exist, and when
 * a host on another machine names one outside the roots, because it means its own machine's. ServiceError
 * `insufficient_scope` for a folder outside the roots without the scope admin.
 */
export async function chosenFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || (await liesInRoots(ctx, folder))) return folder;
  if (!ctx.peer.isLocal) return undefined;
  if (hasScope(ctx.peer.identity, "admin")) return folder;
  const { owner } = ctx.peer.identity;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(owner)} has no scope "admin", which it needs to work in ${JSON.stringify(path)}: the folder is outside agent.workspace and agent.workspace_roots. Add the folder to agent.workspace_roots, or the scope in api_server.keys.`,
    { param: "cwd" },
  );
}

/** Resolves a folder that is only shown. Also undefined where the key may not work. */
export async function shownFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || mayUseMachine(ctx) || (await liesInRoots(ctx, folder))) return folder;
  return undefined;
}

/** Returns true when the host may name any path of this machine: a local connection with the scope admin. */
export function mayUseMachine({ peer }: RpcContext): boolean {
  return peer.isLocal && hasScope(peer.identity, "admin");
}

/** Folders in which every session may work; absolute. */
export function rootsOf({ deps }: RpcContext): readonly string[] {
  const { workspace, workspaceRoots } = deps.agent.deps.settings;
  return [workspace, ...workspaceRoots];
}

async function realFolder(path: string): Promise<string | undefined> {
  if (!isAbsolute(path) || path.includes("\0")) return undefined;
  const real = await realpath(path).catch(() => undefined);
  const found = real === undefined ? undefined : await stat(real).catch(() => undefined);
  return found?.isDirectory() === true ? real : undefined;
}

/** `folder` is a real path. A root that does not exist contains nothing. */
async function liesInRoots(ctx: RpcContext, folder: string): Promise<boolean> {
  const roots = await Promise.all(rootsOf(ctx).map((root) => realpath(root).catch(() => root)));
  return roots.some((root) => isInside(folder, root));
}

export interface TypedPath {
  /** Absolute. */
  readonly path: string;
  readonly sizeBytes: number;
  /** The text after the path, trimmed. */
  readonly remainder: string;
}

export interface PathOptions {
  readonly cwd: string;
  readonly userHome: string;
  /** Folders that may contain the file, absolute. Absent: anywhere. */
  readonly roots?: readonly string[];
}

const MAX_ATTEMPTS = 64;
const MAX_PATH = 4_096;

/**
 * Finds the file that `text` starts with. Without quotes, a name may contain spaces, escaped or not; the longest
 * existing file wins. ServiceError `path_outside_root` when every reading is outside the roots; such paths are not
 * checked for existence.
 */
export async function findTypedPath(text: string, options: PathOptions): Promise<TypedPath | undefined> {
  const roots = await rootsWithTargets(options);
  let leadsOut = false;
  for (const { written, remainder } of readings(text.trim())) {
    const path = toPath(written, options);
    if (path === undefined) continue;
    const isWithin = await liesWithin(path, roots);
    leadsOut ||= !isWithin;
    const found = isWithin ? await stat(path).catch(() => undefined) : undefined;
    if (found?.isFile()) return { path, sizeBytes: found.size, remainder };
  }
  if (leadsOut) throw outside(options.roots ?? []);
  return undefined;
}

/** Returns the roots as written and as real paths; undefined for anywhere. */
async function rootsWithTargets({ roots }: PathOptions): Promise<readonly string[] | undefined> {
  if (!roots) return undefined;
  return [...roots, ...(await Promise.all(roots.map((root) => realpath(root).catch(() => root))))];
}

/** Checks the path as text first. Only then, for an existing file, checks where its links lead. */
async function liesWithin(path: string, roots: readonly string[] | undefined): Promise<boolean> {
  if (!roots) return true;
  if (!roots.some((root) => isInside(path, root))) return false;
  const real = await realpath(path).catch(() => undefined);
  return real === undefined || roots.some((root) => isInside(real, root));
}

function outside(roots: readonly string[]): ServiceError {
  const folders = [...new Set(roots)].join(", ");
  return new ServiceError(
    "path_outside_root",
    `Files can be attached only from these folders: ${folders}. Send the bytes with image.attach_bytes.`,
    { param: "path" },
  );
}

/** Returns true when `text` looks like a path and not like a sentence. */
export function looksLikePath(text: string): boolean {
  return /^\s*["']?(?:\/|~\/|\.{1,2}\/|file:\/\/)/i.test(text);
}

interface Reading {
  readonly written: string;
  readonly remainder: string;
}

function readings(text: string): readonly Reading[] {
  const quoted = /^(["'])(.+?)\1(?:\s+([\s\S]*))?$/.exec(text);
  if (quoted) return [{ written: quoted[2] ?? "", remainder: (quoted[3] ?? "").trim() }];
  const [line = ""] = text.split("\n", 1);
  const ends = [...line.matchAll(/(?<!\\)\s+/g)].map(({ index }) => index);
  const cuts = [line.length, ...ends.slice(0, MAX_ATTEMPTS).toReversed()];
  return cuts.flatMap((cut) => {
    const raw = text.slice(0, cut);
    const remainder = text.slice(cut).trim();
    const plain = raw.replace(/\\([\s\S])/g, "$1");
    // A backslash may be part of a name.
    return plain === raw
      ? [{ written: raw, remainder }]
      : [plain, raw].map((written) => ({ written, remainder }));
  });
}

function toPath(written: string, { cwd, userHome }: PathOptions): string | undefined {
  if (written === "" || written.length > MAX_PATH || written.includes("\0")) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(written)) {
    try {
      return fileURLToPath(written);
    } catch {
      return undefined; // The URL names no file on this machine.
    }
  }
  return written === "~" || written.startsWith("~/")
    ? join(userHome, written.slice(1))
    : resolve(cwd, written);
}

export interface CompletionOptions {
  /** Absolute. */
  readonly cwd: string;
  /** The folder in which the word was typed, relative to `cwd`. */
  readonly within?: string | undefined;
  /** Folders that may be shown. */
  readonly roots: readonly string[];
  readonly userHome: string;
  readonly max: number;
}

/** Further entries of a folder are ignored. */
const MAX_ENTRIES = 5_000;

/** Completes a path: folders first, then by name. The prefixes `@`, `@file:` and `@folder:` are kept. */
export async function completePath(word: string, options: CompletionOptions): Promise<CompletionItem[]> {
  const prefix = /^@(?:file:|folder:)?/.exec(word)?.[0] ?? "";
  const typed = word.slice(prefix.length);
  if (`${typed}${options.within ?? ""}`.includes("\0")) return [];
  const folderText = typed.slice(0, typed.lastIndexOf("/") + 1);
  const start = typed.slice(folderText.length);
  const expanded = folderText.startsWith("~/") ? join(options.userHome, folderText.slice(1)) : folderText;
  const folder = await realpath(resolve(options.cwd, options.within ?? "", expanded)).catch(() => undefined);
  if (folder === undefined || !(await isShown(folder, options.roots))) return [];
  const found = await namesIn(folder, start);
  const isFolderOnly = prefix === "@folder:";
  return found
    .filter(({ isFolder }) => isFolder || !isFolderOnly)
    .toSorted((a, b) => Number(b.isFolder) - Number(a.isFolder) || (a.name < b.name ? -1 : 1))
    .slice(0, options.max)
    .map(({ name, isFolder }) => {
      const shown = isFolder ? `${name}/` : name;
      return { text: `${prefix}${folderText}${shown}`, display: shown, meta: isFolder ? "folder" : "file" };
    });
}

async function isShown(folder: string, roots: readonly string[]): Promise<boolean> {
  const real = await Promise.all(roots.map((root) => realpath(root).catch(() => root)));
  return real.some((root) => isInside(folder, root));
}

interface Entry {
  readonly name: string;
  readonly isFolder: boolean;
}

/** Lists hidden names only after a typed dot. */
async function namesIn(folder: string, start: string): Promise<readonly Entry[]> {
  const entries: Entry[] = [];
  const opened = await opendir(folder).catch(() => undefined);
  if (!opened) return entries;
  let seen = 0;
  for await (const entry of opened) {
    if (++seen > MAX_ENTRIES) break;
    const { name } = entry;
    if (!name.startsWith(start) || (name.startsWith(".") && !start.startsWith("."))) continue;
    const isFolder = entry.isSymbolicLink()
      ? await stat(join(folder, name)).then(
          (target) => target.isDirectory(),
          () => false,
        )
      : entry.isDirectory();
    entries.push({ name, isFolder });
  }
  return entries;
}
