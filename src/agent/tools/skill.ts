import { realpath, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { readForeign } from "../../base/system/own-files.ts";
import { isInside } from "../../base/text.ts";
import { readSkillText, type Skill, type Skills, splitFrontMatter } from "../skills/skills.ts";
import {
  closedObject,
  nonEmptyText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
} from "../tool/tool.ts";
import { toToolError } from "./files/paths.ts";

interface SkillInput {
  readonly action: "list" | "view";
  readonly name?: string;
  readonly file?: string;
}

const MAX_FILE_BYTES = 262_144;

/** The tool that lists skills and loads one. */
export function createSkill(skills: Skills): Tool {
  return defineTool<SkillInput>({
    name: "skill",
    toolset: "skills",
    kind: "read",
    description:
      "Lists the skills, or loads one by name: its instructions, which you then follow. With file it returns another file " +
      "of the skill's folder. Asks the user for variables that a skill needs; you learn only whether they are set.",
    parameters: closedObject(
      {
        action: { type: "string", enum: ["list", "view"] },
        name: nonEmptyText(64, "The skill to view."),
        file: nonEmptyText(1024, "A file of the skill, relative to its folder. Default: its instructions."),
      },
      ["action"],
    ),
    inspect: ({ action, name }) => ({
      kind: "tool",
      effect: "none",
      title: action === "list" ? "List skills" : `Skill: ${name ?? "?"}`,
    }),
    run: async ({ action, name, file }, context) => {
      if (action === "list") return list(skills, context.cwd);
      if (name === undefined) throw new ToolError("view needs name. List the skills to see their names.");
      const skill = await skills.find(name, context.cwd);
      if (!skill)
        throw new ToolError(`No skill is named ${JSON.stringify(name)}. List the skills to see their names.`);
      return file === undefined ? view(skill, context) : viewFile(skill, file);
    },
  });
}

async function list(skills: Skills, cwd: string): Promise<string> {
  const found = await skills.list(cwd);
  const lines = found.skills.map(({ name, description }) => `${name}: ${description}`);
  const problems = found.problems.map(({ path, message }) => `(not usable: ${path}: ${message})`);
  return [...(lines.length === 0 ? ["No skills are available."] : lines), ...problems].join("\n");
}

async function view(skill: Skill, context: ToolContext): Promise<string> {
  const text = await readSkillText(skill.path).catch((error: unknown) => {
    throw new ToolError(
      `The skill ${skill.name} cannot be read: ${error instanceof Error ? error.message : ""}.`,
    );
  });
  const variables = await variablesOf(skill, context);
  return [
    `The skill ${skill.name}, in ${skill.path}:`,
    ...variables,
    splitFrontMatter(text).body.trim(),
  ].join("\n\n");
}

/** Asks for missing variables one by one, and shares those that are set with this session's commands. */
async function variablesOf(skill: Skill, context: ToolContext): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const { name, prompt } of skill.requiredVariables) {
    const state = context.variables.has(name) ? "set" : await askFor(context, { prompt, envVar: name });
    if (state !== "missing") context.variables.share(name);
    lines.push(
      state === "missing" ? `${name} is missing` : `${name} is ${state}; commands see it as $${name}`,
    );
  }
  return lines.length === 0 ? [] : [`Variables: ${lines.join("; ")}.`];
}

async function askFor(
  context: ToolContext,
  wanted: { readonly prompt: string; readonly envVar: string },
): Promise<"stored" | "missing"> {
  try {
    return (await context.questions.secret(wanted)) === "stored" ? "stored" : "missing";
  } catch (error) {
    // The question was not answered: the skill may still be useful.
    if (error instanceof ToolError) return "missing";
    throw error;
  }
}

async function viewFile(skill: Skill, file: string): Promise<string> {
  const path = await realpath(resolve(skill.path, file)).catch(() => undefined);
  if (path === undefined || !isInside(path, await realpath(skill.path))) {
    throw new ToolError(`The skill ${skill.name} has no file ${JSON.stringify(file)}.`);
  }
  const found = await stat(path);
  if (!found.isFile()) throw new ToolError(`${file} is not a file.`);
  if (found.size > MAX_FILE_BYTES) {
    throw new ToolError(
      `${file} has ${found.size} bytes; the limit is ${MAX_FILE_BYTES}. Read it with read_file: ${path}`,
    );
  }
  const bytes = await readForeign(path).catch((error: unknown) => {
    throw toToolError(error, file);
  });
  if (bytes.includes(0)) throw new ToolError(`${file} is not a text file. Its path is ${path}.`);
  return new TextDecoder().decode(bytes);
}
