/** Parts of instructions: skills, and the context files of a project. */
import type { Command } from "../agent.ts";
import { existsSync } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { basename, join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { isRecord, LruMap } from "../../base/data.ts";
import { isInside, SHORT_NAME } from "../../base/text.ts";
import { readForeign, openForeign } from "../../base/system/own-files.ts";

export interface SkillsOptions {
  /** `<home>/skills`, searched after `folders`. */
  readonly homeFolder: string;
  /** Skills that come with the program, searched last: a user's skill of the same name replaces them. */
  readonly bundledFolder?: string | undefined;
  /** Further absolute folders in search order. */
  readonly folders: readonly string[];
  readonly disabled: readonly string[];
}

interface FoundSkills {
  /** Sorted by name; of several skills with one name, the first found. */
  readonly skills: readonly Skill[];
  readonly problems: readonly SkillProblem[];
}

const PROJECT_FOLDER = join(".agents", "skills");
const MAX_SKILLS = 500;
const MAX_FOLDERS = 2_000;
const MAX_CACHED = 2_000;

type Read = { readonly skill: Skill } | { readonly problem: SkillProblem };

/**
 * The skills of a project and of the home: `<cwd>/.agents/skills`, the configured folders, `<home>/skills`, then the
 * bundled skills. Each folder holds skills, or folders of skills. A file is read again only after a change.
 */
export class Skills {
  readonly #options: SkillsOptions;
  readonly #cache = new LruMap<string, { readonly version: string; readonly read: Read }>(MAX_CACHED);

  constructor(options: SkillsOptions) {
    this.#options = options;
  }

  async list(cwd: string): Promise<FoundSkills> {
    const skills = new Map<string, Skill>();
    const problems: SkillProblem[] = [];
    for await (const { read } of this.#each(cwd)) {
      if ("problem" in read) problems.push(read.problem);
      else if (!skills.has(read.skill.name)) skills.set(read.skill.name, read.skill);
      if (skills.size >= MAX_SKILLS) break;
    }
    return { skills: [...skills.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)), problems };
  }

  /** Returns the skills as people see them, by name, also those that cannot be loaded. */
  async describe(cwd: string): Promise<readonly FoundSkill[]> {
    const found = new Map<string, FoundSkill>();
    for await (const { read, folder, source, root } of this.#each(cwd)) {
      const parent = dirname(folder);
      const category = parent === root ? undefined : basename(parent);
      const about = { source, ...(category === undefined ? {} : { category }) };
      const skill: FoundSkill =
        "skill" in read
          ? { ...read.skill, ...about }
          : {
              name: basename(folder),
              description: "",
              requiredVariables: [],
              problem: read.problem.message,
              ...about,
            };
      const key = `${skill.name}${skill.problem === undefined ? "" : "!"}`;
      if (!found.has(key)) found.set(key, skill);
      if (found.size >= MAX_SKILLS) break;
    }
    return [...found.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Every folder with a skill that is not disabled, in search order. */
  async *#each(cwd: string) {
    const { homeFolder, folders, bundledFolder, disabled } = this.#options;
    const roots: readonly (readonly [FoundSkill["source"], string])[] = [
      ["workspace", join(cwd, PROJECT_FOLDER)],
      ...folders.map((folder) => ["folder", folder] as const),
      ["home", homeFolder],
      ...(bundledFolder === undefined ? [] : ([["bundled", bundledFolder]] as const)),
    ];
    for (const [source, path] of roots) {
      const root = await realpath(path).catch(() => path);
      for (const folder of await skillFolders(path)) {
        const read = await this.#read(folder);
        if (read && !("skill" in read && disabled.includes(read.skill.name)))
          yield { read, folder, source, root };
      }
    }
  }

  async find(name: string, cwd: string): Promise<Skill | undefined> {
    return (await this.list(cwd)).skills.find((skill) => skill.name === name);
  }

  /** Loads a skill by name; undefined when it does not exist. Rejects when its file cannot be read. */
  async load(name: string, cwd: string): Promise<LoadedSkill | undefined> {
    const skill = await this.find(name, cwd);
    if (!skill) return undefined;
    const { path, requiredVariables } = skill;
    const instructions = splitFrontMatter(await readSkillText(path)).body.trim();
    const prompt = `Follow the skill ${name}. Its folder is ${path}; these are its instructions:\n\n${instructions}`;
    return { name, instructions, prompt, variables: requiredVariables.map((variable) => variable.name) };
  }

  /** Returns undefined for a folder without a skill. */
  async #read(folder: string): Promise<Read | undefined> {
    const version = await skillVersion(folder);
    if (version === undefined) return undefined;
    const cached = this.#cache.get(folder);
    if (cached?.version === version) return cached.read;
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

/** Returns the agent's introduction to its skills; "" without skills. */
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
    "You have skills: instructions for certain kinds of work. Before you start such work, load the skill with the skill tool.",
    ...lines,
    ...(more > 0 ? [`(${more} more: list them with the skill tool)`] : []),
  ].join("\n");
}

/** Returns the folders in `root` and their subfolders, by name, without links that lead out of `root`. */
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

interface RequiredVariable {
  readonly name: string;
  /** Explains the variable to people. */
  readonly prompt: string;
}

export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly path: string;
  readonly requiredVariables: readonly RequiredVariable[];
}

/** A skill as people see it. */
interface FoundSkill extends Omit<Skill, "path"> {
  readonly source: "workspace" | "folder" | "home" | "bundled";
  /** The folder that groups it with others; absent: none. */
  readonly category?: string;
  /** Why it cannot be loaded. */
  readonly problem?: string;
}

/** A folder whose `SKILL.md` is invalid. */
interface SkillProblem {
  readonly path: string;
  readonly message: string;
}

const SKILL_FILE = "SKILL.md";
const MAX_BYTES = 262_144;
const MAX_DESCRIPTION_CHARACTERS = 1_000;
const MAX_VARIABLES = 32;
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Returns the version of a skill's file; an unchanged version need not be read again. */
async function skillVersion(folder: string): Promise<string | undefined> {
  try {
    const { mtimeMs, size, ino } = await stat(join(folder, SKILL_FILE));
    return `${mtimeMs}:${size}:${ino}`;
  } catch {
    return undefined; // No such file: the folder is not a skill.
  }
}

/** Reads the skill in a folder. Throws an Error that names the problem. */
async function readSkill(folder: string): Promise<Skill> {
  const { head } = splitFrontMatter(await readSkillText(folder));
  const fields = parseFields(head);
  const name = fields["name"] ?? basename(folder);
  if (typeof name !== "string" || !SHORT_NAME.test(name)) {
    throw new Error("name must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit");
  }
  const { description } = fields;
  if (typeof description !== "string" || description.trim() === "") throw new Error("description is missing");
  return {
    name,
    description: description.replace(/\s+/g, " ").trim().slice(0, MAX_DESCRIPTION_CHARACTERS),
    path: folder,
    requiredVariables: variablesOf(fields["required_variables"]),
  };
}

/** Returns a whole `SKILL.md`. Throws an Error unless it is UTF-8 text of at most 256 KiB. */
export async function readSkillText(folder: string): Promise<string> {
  const file = join(folder, SKILL_FILE);
  const found = await stat(file);
  if (!found.isFile()) throw new Error(`${SKILL_FILE} is not a file`);
  if (found.size > MAX_BYTES)
    throw new Error(`${SKILL_FILE} has ${found.size} bytes; the limit is ${MAX_BYTES}`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readForeign(file));
  } catch (error) {
    if (error instanceof TypeError) throw new Error(`${SKILL_FILE} is not UTF-8 text`, { cause: error });
    throw error;
  }
}

/** Splits the YAML between the two `---` lines at the top from the rest. Throws an Error without such lines. */
export function splitFrontMatter(text: string): { readonly head: string; readonly body: string } {
  const match = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(text.replace(/^\uFEFF/, ""));
  if (!match) throw new Error("the front matter between two lines of --- is missing");
  return { head: match[1] ?? "", body: text.slice(text.indexOf(match[0]) + match[0].length) };
}

function parseFields(head: string): Readonly<Record<string, unknown>> {
  let fields: unknown;
  try {
    fields = parse(head, { maxAliasCount: 0 });
  } catch (error) {
    const line = error instanceof Error ? error.message.split("\n")[0] : "";
    throw new Error(`the front matter is not YAML: ${line}`, { cause: error });
  }
  if (!isRecord(fields)) throw new Error("the front matter must consist of keys and values");
  return fields;
}

function variablesOf(value: unknown): readonly RequiredVariable[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Error("required_variables must be a list");
  if (value.length > MAX_VARIABLES)
    throw new Error(`required_variables has more than ${MAX_VARIABLES} entries`);
  return value.map((entry: unknown) => {
    const { name, prompt } = isRecord(entry) ? entry : { name: entry, prompt: undefined };
    if (typeof name !== "string" || !VARIABLE_NAME.test(name)) {
      throw new Error("required_variables must be names of environment variables, or maps with a name");
    }
    return {
      name,
      prompt: typeof prompt === "string" && prompt !== "" ? prompt.slice(0, 500) : `A value for ${name}`,
    };
  });
}

/** A skill with its instructions, for a prompt that includes them. */
interface LoadedSkill {
  readonly name: string;
  readonly instructions: string;
  /** The skill as part of a prompt: its name, its absolute folder, and its instructions. */
  readonly prompt: string;
  /** Names of the environment variables that its commands need. */
  readonly variables: readonly string[];
}

/** In the source; beside the bundle; beside the folder of its chunks. */
const CANDIDATES = ["./bundled/", "./skills/", "../skills/"];

/** Always bundled; distinguishes our folder from another of the same name. */
const BUNDLED_SKILL = "webhook-subscriptions/SKILL.md";

/** Returns the absolute folder of the bundled skills; undefined when the program is a single file without them. */
export function bundledSkillsFolder(): string | undefined {
  return CANDIDATES.map((path) => fileURLToPath(new URL(path, import.meta.url))).find((folder) =>
    existsSync(folder + BUNDLED_SKILL),
  );
}

/** Describes a directory and its skills: texts for a run's instructions. */
export async function brief(
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

/** Returns a command for each skill that asks the agent to load it. */
export function skillCommands(
  skills: readonly { readonly name: string; readonly description: string }[],
): readonly Command[] {
  return skills.map(({ name, description }) => ({
    name,
    description,
    category: "Skills",
    hint: "[task]",
    run: async ({ args }) => ({
      type: "skill",
      name,
      message: `Load the skill ${name} with the skill tool and follow it.${args === "" ? "" : ` Task: ${args}`}`,
    }),
  }));
}
