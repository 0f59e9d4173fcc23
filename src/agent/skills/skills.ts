/** Where skills are found. Touches the machine. */
import { LruMap } from "../../base/lru.ts";
import { readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { isInside } from "../../base/paths.ts";
import { readSkill, skillVersion, type Skill, type SkillProblem } from "./skill-file.ts";

export interface SkillsOptions {
  /** `<home>/skills`, searched behind those of `folders`. */
  readonly homeFolder: string;
  /** What comes with the program, searched last: anybody's own skill of the same name counts instead. */
  readonly bundledFolder?: string | undefined;
  /** Further folders, absolute, in the order in which they are searched. */
  readonly folders: readonly string[];
  /** Names that are not offered. */
  readonly disabled: readonly string[];
}

export interface FoundSkills {
  /** By name; where several have one name, the first that was found. */
  readonly skills: readonly Skill[];
  readonly problems: readonly SkillProblem[];
}

/** The folder of a project that holds its skills. */
const PROJECT_FOLDER = join(".agents", "skills");
const MAX_SKILLS = 500;
const MAX_FOLDERS = 2_000;
const MAX_CACHED = 2_000;

type Read = { readonly skill: Skill } | { readonly problem: SkillProblem };

/**
 * The skills of a project and of the home: `<cwd>/.agents/skills`, then the configured folders, then `<home>/skills`,
 * then what comes with the program. Each holds skills, or folders of skills. A file is read again only when it changed.
 */
export class Skills {
  readonly #options: SkillsOptions;
  readonly #cache = new LruMap<string, { readonly version: string; readonly read: Read }>(MAX_CACHED);

  constructor(options: SkillsOptions) {
    this.#options = options;
  }

  async list(cwd: string): Promise<FoundSkills> {
    const { homeFolder, folders, bundledFolder, disabled } = this.#options;
    const bundled = bundledFolder === undefined ? [] : [bundledFolder];
    const skills = new Map<string, Skill>();
    const problems: SkillProblem[] = [];
    for (const root of [join(cwd, PROJECT_FOLDER), ...folders, homeFolder, ...bundled]) {
      for (const folder of await skillFolders(root)) {
        const read = await this.#read(folder);
        if (read === undefined || skills.size >= MAX_SKILLS) continue;
        if ("problem" in read) problems.push(read.problem);
        else if (!skills.has(read.skill.name) && !disabled.includes(read.skill.name)) {
          skills.set(read.skill.name, read.skill);
        }
      }
    }
    return { skills: [...skills.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)), problems };
  }

  async find(name: string, cwd: string): Promise<Skill | undefined> {
    return (await this.list(cwd)).skills.find((skill) => skill.name === name);
  }

  /** Undefined for a folder that is no skill. */
  async #read(folder: string): Promise<Read | undefined> {
    const version = await skillVersion(folder);
    if (version === undefined) return undefined;
    const known = this.#cache.get(folder);
    if (known?.version === version) return known.read;
    const read = await readSkill(folder).then(
      (skill): Read => ({ skill }),
      (error: unknown): Read => ({
        problem: { path: folder, message: error instanceof Error ? error.message : "it cannot be read" },
      }),
    );
    this.#cache.set(folder, { version, read });
    return read;
  }
}

const MAX_INTRODUCTION_CHARACTERS = 8_000;

/** What the agent is told of its skills; "" when there are none. */
export function skillsIntroduction(skills: readonly Skill[]): string {
  if (skills.length === 0) return "";
  const lines: string[] = [];
  let left = MAX_INTRODUCTION_CHARACTERS;
  for (const { name, description } of skills) {
    const line = `- ${name}: ${description}`;
    left -= line.length + 1;
    if (left < 0) break;
    lines.push(line);
  }
  const more = skills.length - lines.length;
  return [
    "You have skills: instructions for certain kinds of work. Before work that one of them is about, load it with the skill tool.",
    ...lines,
    ...(more > 0 ? [`(${more} more: list them with the skill tool)`] : []),
  ].join("\n");
}

/** Folders in `root` and in its folders, by name, without links that lead out of it. */
async function skillFolders(root: string): Promise<readonly string[]> {
  const real = await realpath(root).catch(() => undefined);
  if (real === undefined) return [];
  const found: string[] = [];
  for (const name of await foldersIn(real)) {
    const folder = join(real, name);
    if (!(await staysIn(real, folder))) continue;
    found.push(folder);
    for (const below of await foldersIn(folder)) {
      if (found.length >= MAX_FOLDERS) return found;
      if (await staysIn(real, join(folder, below))) found.push(join(folder, below));
    }
  }
  return found;
}

async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith("."))
    .map(({ name }) => name)
    .toSorted();
}

async function staysIn(root: string, path: string): Promise<boolean> {
  const real = await realpath(path).catch(() => undefined);
  return real !== undefined && isInside(real, root);
}
