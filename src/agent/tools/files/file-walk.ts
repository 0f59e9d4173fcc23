import type { Dirent } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import ignore, { type Ignore } from "ignore";
import { isMissing } from "./paths.ts";

interface WalkOptions {
  readonly maxEntries: number;
  /** Asked before each folder and file; true ends the walk. */
  readonly isOver: () => boolean;
}

/** One .gitignore and the folder it speaks of. */
interface IgnoreRules {
  readonly folder: string;
  readonly rules: Ignore;
}

const MAX_IGNORE_BYTES = 262_144;
const MAX_DEPTH = 64;
const MAX_PARENTS = 32;

/**
 * The regular files below `root`, folder by folder in the order of their names, without what .gitignore files exclude,
 * without `.git`, and without following links. `skipped` counts folders that could not be read.
 */
export class FileWalk {
  readonly #root: string;
  readonly #options: WalkOptions;
  #entries = 0;
  skipped = 0;
  /** True when a limit ended the walk before its end. */
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
      // By code unit: the same on every machine, whatever its language.
      return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    } catch {
      // No permission, or it went away meanwhile; the rest of the tree still counts.
      this.skipped += 1;
      return [];
    }
  }

  #isOver(): boolean {
    if (this.#entries > this.#options.maxEntries || this.#options.isOver()) this.cut = true;
    return this.cut;
  }
}

/** The last rule that speaks of a path wins, as in git: the deepest file is asked first. */
function isIgnored(path: string, isDirectory: boolean, rules: readonly IgnoreRules[]): boolean {
  for (const { folder, rules: own } of rules.toReversed()) {
    const verdict = own.test(`${relative(folder, path)}${isDirectory ? "/" : ""}`);
    if (verdict.ignored) return true;
    if (verdict.unignored) return false;
  }
  return false;
}

/** The rules of the folders above `root`, up to the top of its repository; none outside a repository. */
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
    // Missing, the usual case, or unreadable: then nothing is excluded.
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
