import { ServiceError } from "../../base/errors.ts";
import type { Tool } from "../tool/tool.ts";
import { createClarify } from "./clarify.ts";
import { createDelegateTask } from "./delegate-task.ts";
import { createPatch } from "./files/patch.ts";
import { createProcess } from "./process/processes.ts";
import { createReadFile } from "./files/read-file.ts";
import { createSearchFiles } from "./files/search-files.ts";
import type { Skills } from "../skills/skills.ts";
import { createSkill } from "./skill.ts";
import { createTerminal, type TerminalOptions } from "./process/terminal.ts";
import { createPresentPlan } from "./present-plan.ts";
import { createTodo } from "./todo.ts";
import { createVisionAnalyze, type VisionOptions } from "./vision-analyze.ts";
import { createWebFetch } from "./web/fetch.ts";
import { createWebSearch, type WebSearchOptions } from "./web/search.ts";
import { createWriteFile } from "./files/write-file.ts";

export interface ToolOptions {
  /** Names of the toolsets to offer, such as `terminal`. */
  readonly toolsets: readonly string[];
  readonly terminal: TerminalOptions;
  readonly web: WebOptions;
  readonly vision: VisionOptions;
  readonly skills: Skills;
  /** Tools for scheduled jobs, made by the cron module. */
  readonly cron?: readonly Tool[];
}

export interface WebOptions {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly allowedPrivateHosts: readonly string[];
  /** Absent: no web_search. */
  readonly search?: Pick<WebSearchOptions, "provider" | "baseUrl" | "apiKey">;
}

const toolsets: Readonly<Record<string, (options: ToolOptions) => readonly Tool[]>> = {
  terminal: ({ terminal }) => [
    createTerminal(terminal),
    ...(terminal.processes ? [createProcess(terminal.processes)] : []),
  ],
  files: () => [createReadFile(), createWriteFile(), createPatch(), createSearchFiles()],
  web: ({ web }) => [
    createWebFetch(web),
    ...(web.search ? [createWebSearch({ ...web, ...web.search })] : []),
  ],
  vision: ({ vision }) => [createVisionAnalyze(vision)],
  planning: () => [createTodo(), createPresentPlan()],
  clarify: () => [createClarify()],
  delegation: () => [createDelegateTask()],
  skills: ({ skills }) => [createSkill(skills)],
  cron: ({ cron = [] }) => cron,
  // MCP tools are added at run time; see src/agent/mcp.
  mcp: () => [],
};

/**
 * Creates the built-in tools of the named toolsets, each once, in the order of the names. Throws `invalid_config` for
 * an unknown toolset.
 */
export function createTools(options: ToolOptions): readonly Tool[] {
  return [...new Set(options.toolsets)].flatMap((name) => {
    const create = Object.hasOwn(toolsets, name) ? toolsets[name] : undefined;
    if (create) return create(options);
    const names = Object.keys(toolsets).join(", ");
    throw new ServiceError(
      "invalid_config",
      `No toolset is named ${JSON.stringify(name)}. Use one of: ${names}.`,
      { param: "agent.toolsets" },
    );
  });
}
