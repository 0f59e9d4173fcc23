/** Completes paths that a user types. Touches the machine, and only reads. */
import { opendir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import type { CompletionItem } from "../../../generated/gateway/types/types.gen.ts";
import { FileWalk } from "../../base/system/file-walk.ts";
import { isInside } from "../../base/text.ts";

export interface CompletionOptions {
  /** Absolute. */
  readonly cwd: string;
  /** The folder in which the word was typed, relative to `cwd`. */
  readonly within?: string | undefined;
  /** Folders that may be shown. */
  readonly roots: readonly string[];
  readonly userHome: string;
  readonly max: number;
  readonly signal: AbortSignal;
}

/** Further entries of a folder are ignored. */
const MAX_ENTRIES = 5_000;

/** Kinds of references that a prompt may have besides `@` and a path. */
const KINDS: readonly CompletionItem[] = [
  { text: "@file:", display: "@file:", meta: "a file" },
  { text: "@folder:", display: "@folder:", meta: "a folder" },
  { text: "@diff", display: "@diff", meta: "changes that are not staged" },
  { text: "@staged", display: "@staged", meta: "staged changes" },
  { text: "@git:", display: "@git:", meta: "the newest commits: @git:3" },
];

/**
 * Completes a path: folders first, then by name. The prefixes `@`, `@file:` and `@folder:` are kept, but a file becomes
 * `@file:`. With a prefix, a name without a slash is also searched in all folders below.
 */
export async function completePath(word: string, options: CompletionOptions): Promise<CompletionItem[]> {
  const prefix = /^@(?:file:|folder:)?/.exec(word)?.[0] ?? "";
  const typed = word.slice(prefix.length);
  if (`${typed}${options.within ?? ""}`.includes("\0")) return [];
  const kinds = prefix === "@" ? KINDS.filter(({ text }) => text.startsWith(word) && text !== word) : [];
  const here = await inFolder(prefix, typed, options);
  const isName = typed !== "" && !typed.includes("/") && (prefix === "@" || prefix === "@file:");
  const items = [...kinds, ...here];
  const found = isName && items.length < options.max ? await byName(typed, options) : [];
  const known = new Set(items.map(({ text }) => text));
  return [...items, ...found.filter(({ text }) => !known.has(text))].slice(0, options.max);
}

async function inFolder(
  prefix: string,
  typed: string,
  options: CompletionOptions,
): Promise<readonly CompletionItem[]> {
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
      const of = prefix === "@" && !isFolder ? "@file:" : prefix;
      return { text: `${of}${folderText}${shown}`, display: shown, meta: isFolder ? "folder" : "file" };
    });
}

/** How long a search may take, and how many files it looks at. */
const SEARCH_MS = 300;
const MAX_SEARCHED = 20_000;

/** Finds files whose name contains `part`, without those that git ignores: names that begin with it first. */
async function byName(part: string, options: CompletionOptions): Promise<readonly CompletionItem[]> {
  const root = await realpath(resolve(options.cwd, options.within ?? "")).catch(() => undefined);
  if (root === undefined || !(await isShown(root, options.roots))) return [];
  const untilMs = performance.now() + SEARCH_MS;
  const isOver = () => performance.now() > untilMs || options.signal.aborted;
  const wanted = part.toLowerCase();
  const found: { readonly path: string; readonly at: number }[] = [];
  for await (const file of new FileWalk(root, { maxEntries: MAX_SEARCHED, isOver }).files()) {
    const at = basename(file).toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ path: relative(root, file), at });
  }
  return found
    .toSorted(
      (a, b) =>
        Math.sign(a.at) - Math.sign(b.at) || a.path.length - b.path.length || (a.path < b.path ? -1 : 1),
    )
    .slice(0, options.max)
    .map(({ path }) => ({ text: `@file:${path}`, display: basename(path), meta: dirname(path) }));
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

/** Images for the next prompt of a session. Touches the machine. */
