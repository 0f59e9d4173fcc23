/** Reads one skill: a folder with a `SKILL.md`. Touches the machine. */
import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { parse } from "yaml";
import { readForeign } from "../../base/system/own-files.ts";
import { isRecord } from "../../base/json/schema.ts";

export interface RequiredVariable {
  readonly name: string;
  /** What people are told it is for. */
  readonly prompt: string;
}

export interface Skill {
  readonly name: string;
  readonly description: string;
  /** The skill's folder, absolute. */
  readonly path: string;
  readonly requiredVariables: readonly RequiredVariable[];
}

/** A folder that should be a skill and is none. */
export interface SkillProblem {
  readonly path: string;
  readonly message: string;
}

export const SKILL_FILE = "SKILL.md";
export const SKILL_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

const MAX_BYTES = 262_144;
const MAX_DESCRIPTION_CHARACTERS = 1_000;
const MAX_VARIABLES = 32;
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** What makes a version of the file: while it is the same, the file need not be read again. */
export async function skillVersion(folder: string): Promise<string | undefined> {
  try {
    const { mtimeMs, size, ino } = await stat(join(folder, SKILL_FILE));
    return `${mtimeMs}:${size}:${ino}`;
  } catch {
    return undefined; // no such file: the folder is no skill
  }
}

/** The skill in a folder. Throws an Error whose message says what is wrong with the file. */
export async function readSkill(folder: string): Promise<Skill> {
  const { head } = splitFrontMatter(await readSkillText(folder));
  const fields = parseFields(head);
  const name = fields["name"] ?? basename(folder);
  if (typeof name !== "string" || !SKILL_NAME.test(name)) {
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

/** All of a `SKILL.md` as text. Throws an Error when it is not UTF-8 text of at most 256 KiB. */
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

/** The YAML between the two lines of dashes at the top, and what follows. Throws an Error when there is none. */
export function splitFrontMatter(text: string): { readonly head: string; readonly body: string } {
  const match = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(text.replace(/^\uFEFF/, ""));
  if (!match) throw new Error("there is no front matter between two lines of ---");
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
  if (!isRecord(fields)) throw new Error("the front matter must be keys and values");
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
