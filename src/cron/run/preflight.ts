/** Checks whether a job can run at all, before it spends anything. Touches the machine. */
import { stat } from "node:fs/promises";
import { findScriptFile } from "../../exec/script-file.ts";
import { isReady, type ModelCatalog } from "../../agent/model.ts";
import type { Claimed } from "../tick/claim.ts";
import type { Ending } from "./ending.ts";
import { type JobDefinition, unknownToolsets } from "../job/job.ts";
import { clip } from "./message.ts";
import type { CronDeps } from "../deps.ts";
import { scanPrompt } from "../job/scan.ts";

export type PreflightDeps = Pick<
  CronDeps,
  "models" | "fallbacks" | "scriptsFolder" | "settings" | "toolsets"
>;

/** Returns why the job cannot run, in a sentence or two for people; undefined when it can. */
export async function findBlock(deps: PreflightDeps, job: JobDefinition): Promise<string | undefined> {
  return (await blockOfFiles(deps, job)) ?? (job.isScriptOnly ? undefined : blockOfAgent(deps, job));
}

/** Reports a reason once: it is not delivered again while it stays the same, except for a manual run. */
export function blockedEnding({ occurrence, job }: Claimed, reason: string): Ending {
  const text = clip(reason, MAX_REASON_CHARACTERS);
  const isKnown = job.lastStatus === "blocked_config" && job.lastError === text;
  return {
    status: "failed",
    lastStatus: "blocked_config",
    text,
    isQuiet: isKnown && occurrence.cause !== "manual",
  };
}

/** Shorter than the last error that a job keeps, so that the two compare equal. */
const MAX_REASON_CHARACTERS = 400;

async function blockOfFiles(
  { scriptsFolder }: PreflightDeps,
  { script, workdir, isScriptOnly }: JobDefinition,
): Promise<string | undefined> {
  if (script === undefined && isScriptOnly) return "The job has no agent, and no script either.";
  if (script !== undefined && (await findScriptFile(script, scriptsFolder)) === undefined) {
    return `The file ${JSON.stringify(script)} does not exist in the folder of scripts, ${scriptsFolder}.`;
  }
  if (workdir !== undefined && !(await isFolder(workdir))) {
    return `The working directory of the job, ${workdir}, does not exist.`;
  }
  return undefined;
}

function blockOfAgent(deps: PreflightDeps, job: JobDefinition): string | undefined {
  const unknown = unknownToolsets(job, deps.settings, deps.toolsets());
  if (unknown.length > 0) {
    const names = unknown.map((name) => JSON.stringify(name)).join(", ");
    return `Unknown toolset ${names}. The toolsets are: ${deps.toolsets().join(", ")}.`;
  }
  return blockOfModel(deps, job) ?? scanPrompt(job.prompt);
}

function blockOfModel({ models, fallbacks = [] }: PreflightDeps, job: JobDefinition): string | undefined {
  const ref = job.model === undefined ? models.default : models.resolve(job.model);
  if (!ref) return `Unknown model ${JSON.stringify(job.model)}: no configured provider has it.`;
  const others = fallbacks.flatMap((name) => models.resolve(name) ?? []);
  if ([ref, ...others].some(({ provider }) => canBeCalled(models, provider))) return undefined;
  return `The key for ${ref.provider}, the provider of the job's model, is missing.`;
}

function canBeCalled(models: ModelCatalog, provider: string): boolean {
  const listed = models.list().find(({ name }) => name === provider);
  return listed !== undefined && isReady(listed);
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
