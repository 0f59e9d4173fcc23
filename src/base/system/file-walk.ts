/** Walks folders as version control sees them: without what .gitignore leaves out. Touches the machine. */
import type { Dirent } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import ignore, { type Ignore } from "ignore";

interface WalkOptions {
  readonly maxEntries: number;
  /** Called before each folder and file; true ends the walk. */
  readonly isOver: () => boolean;
}

/** One .gitignore and its folder. */
interface IgnoreRules {
  readonly folder: string;
  readonly rules: Ignore;
}

/** Returns whether an error of the file system says that there is no such file. */
export function isMissing(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return code === "ENOENT" || code === "ENOTDIR";
}

const MAX_IGNORE_BYTES = 262_144;
const MAX_DEPTH = 64;
const MAX_PARENTS = 32;

/**
 * Walks the regular files in `root`, folder by folder in the order of names. Omits files excluded by .gitignore and
 * `.git`, and does not follow links. `skipped` counts unreadable folders.
 */
export class FileWalk {
  readonly #root: string;
  readonly #options: WalkOptions;
  #entries = 0;
  skipped = 0;
  /** True when a limit ended the walk. */
  cut = false;

  constructor(root: string, options: WalkOptions) {
    this.#root = root;
    this.#options = options;
  }

  async *files(): AsyncGenerator<string> {
    yield* this.#folder(this.#root, await rulesAbove(this.#root), 0);
  }

  async *#folder(folder: string, above: readonly IgnoreRules[], depth: number): AsyncGenerator<string> {
    if (this.#isOver() || depth > MAX_DEPTH) return;
    const own = await rulesOf(folder);
    const rules = own ? [...above, own] : above;
    for (const entry of await this.#list(folder)) {
      this.#entries += 1;
      if (this.#isOver()) return;
      const path = join(folder, entry.name);
      if (isIgnored(path, entry.isDirectory(), rules)) continue;
      if (entry.isFile()) yield path;
      else if (entry.isDirectory() && entry.name !== ".git") yield* this.#folder(path, rules, depth + 1);
    }
  }

  async #list(folder: string): Promise<readonly Dirent[]> {
    try {
      const entries = await readdir(folder, { withFileTypes: true });
      // By code unit: the same order in every locale.
      return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    } catch {
      // Missing permission, or deleted meanwhile; the walk continues.
      this.skipped += 1;
      return [];
    }
  }

  #isOver(): boolean {
    if (this.#entries > this.#options.maxEntries || this.#options.isOver()) this.cut = true;
    return this.cut;
  }
}

/** The last matching rule wins, as in git: the deepest file is checked first. */
function isIgnored(path: string, isDirectory: boolean, rules: readonly IgnoreRules[]): boolean {
  for (const { folder, rules: own } of rules.toReversed()) {
    const match = own.test(`${relative(folder, path)}${isDirectory ? "/" : ""}`);
    if (match.ignored) return true;
    if (match.unignored) return false;
  }
  return false;
}

/** Returns the rules of the folders above `root` up to the top of its repository; none outside a repository. */
async function rulesAbove(root: string): Promise<readonly IgnoreRules[]> {
  const found: IgnoreRules[] = [];
  let folder = root;
  for (let climbed = 0; climbed < MAX_PARENTS; climbed += 1) {
    const own = folder === root ? undefined : await rulesOf(folder);
    if (own) found.unshift(own);
    if (await exists(join(folder, ".git"))) return found;
    if (dirname(folder) === folder) return [];
    folder = dirname(folder);
  }
  return [];
}

async function rulesOf(folder: string): Promise<IgnoreRules | undefined> {
  const path = join(folder, ".gitignore");
  try {
    const found = await stat(path);
    if (!found.isFile() || found.size > MAX_IGNORE_BYTES) return undefined;
    return { folder, rules: ignore().add(await readFile(path, "utf8")) };
  } catch {
    // Missing, the usual case, or unreadable: excludes nothing.
    return undefined;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    return !isMissing(error);
  }
}
