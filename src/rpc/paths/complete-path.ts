/** What a path may go on with. Touches the machine. */
import { opendir, realpath, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { CompletionItem } from "../../../generated/gateway/types/types.gen.ts";
import { isInside } from "../../base/paths.ts";

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
