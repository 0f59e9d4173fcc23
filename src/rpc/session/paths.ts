/** The folder that a session works in: which it may be, and what it is. Touches the machine, and only looks at it. */
import { readFile, realpath, stat, opendir } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { isInside } from "../../base/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcContext } from "../deps.ts";
import { hasScope } from "../connection/peer.ts";
import { fileURLToPath } from "node:url";
import type { CompletionItem } from "../../../generated/gateway/types/types.gen.ts";

/** The git branch that a folder is on; undefined where there is none. */
export async function branchOf(cwd: string): Promise<string | undefined> {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const head = await readFile(join(folder, ".git", "HEAD"), "utf8").catch(() => undefined);
    if (head !== undefined) return /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
    if (dirname(folder) === folder) return undefined;
  }
}

/**
 * The folder that a host names for a session, without links. Undefined for none, for one that is not there, and for one
 * that a host of another machine names and that lies outside of the roots: it means its own machine's. ServiceError
 * `insufficient_scope` for one outside of the roots where the key lacks the scope admin.
 */
export async function chosenFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || (await liesInRoots(ctx, folder))) return folder;
  if (!ctx.peer.isLocal) return undefined;
  if (hasScope(ctx.peer.identity, "admin")) return folder;
  const { owner } = ctx.peer.identity;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(owner)} has no scope "admin", which it needs to work in ${JSON.stringify(path)}: the folder lies outside of agent.workspace and agent.workspace_roots. Add the folder to agent.workspace_roots, or the scope in api_server.keys.`,
    { param: "cwd" },
  );
}

/** As {@link chosenFolder}, for what is only looked at: undefined also for what the key may not work in. */
export async function shownFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || mayUseMachine(ctx) || (await liesInRoots(ctx, folder))) return folder;
  return undefined;
}

/** Whether the host may name any place of this machine: whoever it is that sits at it, and not merely a key that is used there. */
export function mayUseMachine({ peer }: RpcContext): boolean {
  return peer.isLocal && hasScope(peer.identity, "admin");
}

/** Where sessions may work whoever asks for it; absolute. */
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

/** `folder` is without links. A root that is not there has nothing in it. */
async function liesInRoots(ctx: RpcContext, folder: string): Promise<boolean> {
  const roots = await Promise.all(rootsOf(ctx).map((root) => realpath(root).catch(() => root)));
  return roots.some((root) => isInside(folder, root));
}

export interface TypedPath {
  /** Absolute. */
  readonly path: string;
  readonly sizeBytes: number;
  /** What was typed behind it, trimmed. */
  readonly remainder: string;
}

export interface PathPlaces {
  readonly cwd: string;
  readonly userHome: string;
  /** Folders, absolute, that files may lie in. Absent: anywhere. */
  readonly roots?: readonly string[];
}

const MAX_ATTEMPTS = 64;
const MAX_PATH = 4_096;

/**
 * The file that `text` begins with. Without quotes a name may hold spaces, escaped or not: the longest that is a file
 * wins. Undefined when there is none. ServiceError `path_outside_root` when it could only lie outside of the roots;
 * whether it is there is not looked at then.
 */
export async function findTypedPath(text: string, places: PathPlaces): Promise<TypedPath | undefined> {
  const roots = await rootsWithTargets(places);
  let leadsOut = false;
  for (const { written, remainder } of readings(text.trim())) {
    const path = toPath(written, places);
    if (path === undefined) continue;
    const isWithin = await liesWithin(path, roots);
    leadsOut ||= !isWithin;
    const found = isWithin ? await stat(path).catch(() => undefined) : undefined;
    if (found?.isFile()) return { path, sizeBytes: found.size, remainder };
  }
  if (leadsOut) throw outside(places.roots ?? []);
  return undefined;
}

/** As they are written, and as they really are; undefined for anywhere. */
async function rootsWithTargets({ roots }: PathPlaces): Promise<readonly string[] | undefined> {
  if (!roots) return undefined;
  return [...roots, ...(await Promise.all(roots.map((root) => realpath(root).catch(() => root))))];
}

/** By its text first, then, for what is there, by where its links lead. */
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
    `Files may be attached from these folders only: ${folders}. Send the bytes with image.attach_bytes.`,
    { param: "path" },
  );
}

/** Whether `text` looks like a path and not like a sentence. */
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
    // A backslash may also be part of a name.
    return plain === raw
      ? [{ written: raw, remainder }]
      : [plain, raw].map((written) => ({ written, remainder }));
  });
}

function toPath(written: string, { cwd, userHome }: PathPlaces): string | undefined {
  if (written === "" || written.length > MAX_PATH || written.includes("\0")) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(written)) {
    try {
      return fileURLToPath(written);
    } catch {
      return undefined; // no file URL of this machine
    }
  }
  return written === "~" || written.startsWith("~/")
    ? join(userHome, written.slice(1))
    : resolve(cwd, written);
}

export interface CompletionPaths {
  /** Absolute. */
  readonly cwd: string;
  /** Where the word was typed, when that is not `cwd`; relative to it. */
  readonly within?: string | undefined;
  /** Nothing outside of these folders is shown. */
  readonly roots: readonly string[];
  readonly userHome: string;
  readonly max: number;
}

/** Of a folder that holds more, the rest is not looked at. */
const MAX_ENTRIES = 5_000;

/** Folders first, then by name. `@` in front, `@file:` and `@folder:` stay as they were typed. */
export async function completePath(word: string, places: CompletionPaths): Promise<CompletionItem[]> {
  const prefix = /^@(?:file:|folder:)?/.exec(word)?.[0] ?? "";
  const typed = word.slice(prefix.length);
  if (`${typed}${places.within ?? ""}`.includes("\0")) return [];
  const folderText = typed.slice(0, typed.lastIndexOf("/") + 1);
  const start = typed.slice(folderText.length);
  const expanded = folderText.startsWith("~/") ? join(places.userHome, folderText.slice(1)) : folderText;
  const folder = await realpath(resolve(places.cwd, places.within ?? "", expanded)).catch(() => undefined);
  if (folder === undefined || !(await isShown(folder, places.roots))) return [];
  const found = await namesIn(folder, start);
  const isFolderOnly = prefix === "@folder:";
  return found
    .filter(({ isFolder }) => isFolder || !isFolderOnly)
    .toSorted((a, b) => Number(b.isFolder) - Number(a.isFolder) || (a.name < b.name ? -1 : 1))
    .slice(0, places.max)
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

/** Hidden names only where a dot was typed. */
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
