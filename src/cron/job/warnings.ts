/** What people should know about a job that is valid, and may still not do what they expect. Pure. */
import { type AgentServices } from "../../agent/create.ts";
import { platformsOf } from "../../deliver/address.ts";
import type { JobApi } from "../deps.ts";
import { isTicking } from "../tick/status.ts";
import { findBlock } from "./check.ts";
import { refusal, type Job, type JobDefinition } from "./job.ts";

/** Most names of skills in an error. */
const MAX_NAMES = 20;

/** Refuses skills that a job could not load. ServiceError `invalid_request` with the known names. */
export async function requireSkills(
  skills: Pick<AgentServices["skills"], "list">,
  names: readonly string[],
  { cwd, folder }: { readonly cwd: string; readonly folder: string },
): Promise<void> {
  if (names.length === 0) return;
  const known = (await skills.list(cwd)).skills.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name.trim()));
  if (unknown === undefined) return;
  const hint =
    known.length === 0 ? `Put skills into ${folder}.` : `Known: ${known.slice(0, MAX_NAMES).join(", ")}.`;
  throw refusal("skills", `Unknown skill ${JSON.stringify(unknown.slice(0, 100))}. ${hint}`);
}

type Targets = Partial<Pick<JobDefinition, "deliver" | "failureDeliver" | "origin">>;

/** Returns which platforms of the targets are not ready, and whether an origin is only a file. */
export async function targetWarnings(
  jobs: readonly Targets[],
  problemsOf: JobApi["targetProblems"],
): Promise<readonly string[]> {
  const lists = jobs.flatMap(({ deliver = "", failureDeliver = "" }) => [deliver, failureDeliver]);
  const names = platformsOf(lists.join(",")).filter((name) => name !== "local" && name !== "all");
  const warnings = (await problemsOf(names)).map((problem) => `${problem}.`);
  const isLost = jobs.some(
    ({ deliver = "", origin }) => origin === undefined && /(^|,)\s*origin\s*(,|$)/.test(deliver),
  );
  if (!isLost) return warnings;
  const lost =
    "no chat created this job, so `origin` is `local`: the answer is only kept in a file. Name a target.";
  return [...warnings, lost];
}

/** Returns why a job may not run or deliver: the configuration, its targets, and a scheduler that does not run. */
export async function jobWarnings(api: JobApi, { definition, state }: Job): Promise<readonly string[]> {
  const block = await findBlock(api, definition);
  const targets = await targetWarnings([definition], api.targetProblems);
  const waits = state === "scheduled" && !(await isTicking(api.store, api.clock.now()));
  return [
    ...(block === undefined ? [] : [block]),
    ...targets,
    ...(waits ? ["No scheduler is running: jobs run while `agentd gateway` runs."] : []),
  ];
}
