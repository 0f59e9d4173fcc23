/** What keeps a job from running at all, found before anything is spent on it. Touches the machine. */
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

/** Why the job cannot run as things stand, a sentence or two for people; undefined: it can. */
export async function findBlock(deps: PreflightDeps, job: JobDefinition): Promise<string | undefined> {
  return (await blockOfPlaces(deps, job)) ?? (job.isScriptOnly ? undefined : blockOfAgent(deps, job));
}

/** Told once: while the reason of the last run is the same, nobody is told again unless they asked for the run. */
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

/** Shorter than what a job keeps of its last error, so that both are the same. */
const MAX_REASON_CHARACTERS = 400;

async function blockOfPlaces(
  { scriptsFolder }: PreflightDeps,
  { script, workdir, isScriptOnly }: JobDefinition,
): Promise<string | undefined> {
  if (script === undefined && isScriptOnly) return "The job has no agent, and no script either.";
  if (script !== undefined && (await findScriptFile(script, scriptsFolder)) === undefined) {
    return `There is no file ${JSON.stringify(script)} in the folder of scripts, ${scriptsFolder}.`;
  }
  if (workdir !== undefined && !(await isFolder(workdir))) {
    return `The folder in which the job works, ${workdir}, is not there.`;
  }
  return undefined;
}

function blockOfAgent(deps: PreflightDeps, job: JobDefinition): string | undefined {
  const unknown = unknownToolsets(job, deps.settings, deps.toolsets());
  if (unknown.length > 0) {
    const names = unknown.map((name) => JSON.stringify(name)).join(", ");
    return `There are no tools of the set ${names}. Those there are: ${deps.toolsets().join(", ")}.`;
  }
  return blockOfModel(deps, job) ?? scanPrompt(job.prompt);
}

function blockOfModel({ models, fallbacks = [] }: PreflightDeps, job: JobDefinition): string | undefined {
  const ref = job.model === undefined ? models.default : models.resolve(job.model);
  if (!ref) return `There is no model ${JSON.stringify(job.model)}: no configured provider has it.`;
  const others = fallbacks.flatMap((name) => models.resolve(name) ?? []);
  if ([ref, ...others].some(({ provider }) => canBeAsked(models, provider))) return undefined;
  return `There is no key for ${ref.provider}, the provider of the job's model.`;
}

function canBeAsked(models: ModelCatalog, provider: string): boolean {
  const listed = models.list().find(({ name }) => name === provider);
  return listed !== undefined && isReady(listed);
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
