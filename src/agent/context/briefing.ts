import { realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { isInside } from "../../base/paths.ts";
import { openForeign } from "../../base/system/own-files.ts";
import { type Skills, skillsIntroduction } from "../skills/skills.ts";

/** How long a directory's texts stay cached, so that successive runs read the disk once. */
const FRESH_MS = 2_000;
const MAX_DIRECTORIES = 100;

interface CachedBriefing {
  readonly atMs: number;
  readonly texts: Promise<readonly string[]>;
}

/** Returns a function that describes a directory and its skills: texts for a run's instructions. */
export function createBriefing(options: {
  readonly skills: Skills;
  /** Names of context files, such as AGENTS.md. */
  readonly names: readonly string[];
  readonly clock: Clock;
}): (cwd: string) => Promise<readonly string[]> {
  const cache = new Map<string, CachedBriefing>();
  return (cwd) => {
    const nowMs = options.clock.now();
    const last = cache.get(cwd);
    if (last && nowMs - last.atMs < FRESH_MS) return last.texts;
    if (cache.size >= MAX_DIRECTORIES) cache.clear();
    const texts = brief(cwd, options);
    cache.set(cwd, { atMs: nowMs, texts });
    return texts;
  };
}

async function brief(
  cwd: string,
  { skills, names }: { readonly skills: Skills; readonly names: readonly string[] },
): Promise<readonly string[]> {
  const [files, found] = await Promise.all([contextFiles(cwd, names), skills.list(cwd)]);
  return [contextText(files), skillsIntroduction(found.skills)].filter((text) => text !== "");
}

/** A file in which a project instructs agents, such as AGENTS.md. */

interface ContextFile {
  readonly path: string;
  readonly text: string;
  /** True when the end was left out. */
  readonly cut: boolean;
}

const MAX_FILE_BYTES = 32_768;
const MAX_TOTAL_BYTES = 65_536;
const MAX_PARENTS = 32;

/**
 * Returns the first of `names` in each folder from the top of the repository down to `cwd`; outside a repository only
 * that of `cwd`. Reads at most 32 KiB of a file and 64 KiB in all. Ignores links that lead out of the repository.
 */
export async function contextFiles(cwd: string, names: readonly string[]): Promise<readonly ContextFile[]> {
  const folders = await foldersDownTo(cwd);
  const top = await realpath(folders[0] ?? cwd).catch(() => cwd);
  const found: ContextFile[] = [];
  let left = MAX_TOTAL_BYTES;
  for (const folder of folders) {
    const file = await firstOf(folder, { names, top, maxBytes: Math.min(left, MAX_FILE_BYTES) });
    if (!file) continue;
    found.push(file);
    left -= Buffer.byteLength(file.text);
    if (left <= 0) break;
  }
  return found;
}

/** Returns the files as part of the instructions; "" without files. */
export function contextText(files: readonly ContextFile[]): string {
  const texts = files.map(({ path, text, cut }) => {
    const note = cut ? "\n[the rest was left out: read the file]" : "";
    return `What ${path} says:\n${text.trim()}${note}`;
  });
  if (texts.length === 0) return "";
  return [
    "The project gives these instructions. Follow them where they concern your work; the user's instructions take precedence.",
    ...texts,
  ].join("\n\n");
}

async function foldersDownTo(cwd: string): Promise<readonly string[]> {
  const folders = [cwd];
  for (let folder = cwd; folders.length <= MAX_PARENTS; folder = dirname(folder)) {
    if (await exists(join(folder, ".git"))) return folders;
    if (dirname(folder) === folder) break;
    folders.unshift(dirname(folder));
  }
  return [cwd];
}

async function firstOf(
  folder: string,
  {
    names,
    top,
    maxBytes,
  }: { readonly names: readonly string[]; readonly top: string; readonly maxBytes: number },
): Promise<ContextFile | undefined> {
  for (const name of names) {
    const path = join(folder, name);
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined || !isInside(real, top)) continue;
    const file = await read(path, maxBytes).catch(() => undefined);
    if (file) return file;
  }
  return undefined;
}

/** Returns undefined for a file that is not text. */
async function read(path: string, maxBytes: number): Promise<ContextFile | undefined> {
  const handle = await openForeign(path);
  try {
    const { size } = await handle.stat();
    const bytes = Buffer.alloc(Math.min(size, maxBytes));
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0);
    const kept = bytes.subarray(0, bytesRead);
    if (kept.includes(0) || kept.length === 0) return undefined;
    // A streaming decoder drops an incomplete last character.
    return {
      path,
      text: new TextDecoder().decode(kept, { stream: size > bytesRead }),
      cut: size > bytesRead,
    };
  } finally {
    await handle.close();
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
