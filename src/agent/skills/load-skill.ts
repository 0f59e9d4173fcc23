import { readSkillText, splitFrontMatter } from "./skill-file.ts";
import type { Skills } from "./skills.ts";

/** A skill with its instructions, for a prompt that brings them along. */
export interface LoadedSkill {
  readonly name: string;
  /** Its folder, absolute: what its instructions name is found there. */
  readonly path: string;
  readonly instructions: string;
  /** Names of environment variables that its commands need. */
  readonly variables: readonly string[];
}

export type ReportedSkill = Pick<LoadedSkill, "name" | "path" | "instructions">;

/** Undefined when there is none of this name. Rejects when its file cannot be read. */
export async function loadSkill(
  skills: Pick<Skills, "find">,
  name: string,
  cwd: string,
): Promise<LoadedSkill | undefined> {
  const skill = await skills.find(name, cwd);
  if (!skill) return undefined;
  const { body } = splitFrontMatter(await readSkillText(skill.path));
  const variables = skill.requiredVariables.map((variable) => variable.name);
  return { name, path: skill.path, instructions: body.trim(), variables };
}

/** As a prompt brings it. */
export function skillInstructions({ name, path, instructions }: ReportedSkill): string {
  return `Follow the skill ${name}. Its folder is ${path}; these are its instructions:\n\n${instructions}`;
}
